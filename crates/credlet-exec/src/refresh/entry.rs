use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use super::{FetchedValue, RefreshPolicy};
use crate::Clock;

/// A fetched value with its expiry and generation.
pub struct CachedValue<V> {
    value: V,
    generation: u64,
    expires: Option<Timestamp>,
    lifetime: Option<Lifetime>,
    fetched_at: Duration,
    fetch_duration: Duration,
    was_expired: bool,
    replaces_rejected: bool,
    accepted: AtomicBool,
    used: AtomicBool,
}

/// When to refresh a value and when it expires, by both clocks; the earlier one counts. The wall clock can be set back, and
/// the monotonic clock stops while the system is suspended.
#[derive(Clone, Copy, Debug)]
struct Lifetime {
    refresh_at: ClockReading,
    expires_at: ClockReading,
}

/// A point in time by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Duration,
}

impl ClockReading {
    /// Inclusive: a credential is valid until its expiry has passed.
    fn is_within(&self, end: &Self) -> bool {
        self.wall <= end.wall && self.monotonic <= end.monotonic
    }

    fn after(&self, duration: Duration) -> Self {
        Self {
            wall: self.wall.saturating_add(duration).unwrap_or(Timestamp::MAX),
            monotonic: self.monotonic.saturating_add(duration),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    Fresh,
    /// Valid, and due for a refresh.
    Due,
    Expired,
}

impl<V> CachedValue<V> {
    pub(super) fn new(
        fetched: FetchedValue<V>,
        generation: u64,
        now: ClockReading,
        fetch_duration: Duration,
        replaces_rejected: bool,
        policy: &RefreshPolicy,
    ) -> Self {
        // The conversion fails for a negative duration, which means that the value was expired on arrival. Such a value
        // is served to the waiting callers and, on the monotonic clock, for `min_interval`; otherwise each request would
        // cause a fetch.
        let remaining = fetched.expires.map(|expires| Duration::try_from(expires.duration_since(now.wall)).ok());
        let was_expired = remaining == Some(None);
        let lifetime = remaining.map(|remaining| match remaining {
            Some(remaining) => Lifetime {
                refresh_at: now.after(remaining.saturating_sub(policy.refresh_ahead(remaining, fetch_duration))),
                expires_at: now.after(remaining),
            },
            None => {
                let end = ClockReading { wall: Timestamp::MAX, ..now.after(policy.min_interval) };
                Lifetime { refresh_at: end, expires_at: end }
            }
        });
        Self {
            value: fetched.value,
            generation,
            expires: fetched.expires,
            lifetime,
            fetched_at: now.monotonic,
            fetch_duration,
            was_expired,
            replaces_rejected,
            accepted: AtomicBool::new(false),
            used: AtomicBool::new(false),
        }
    }

    /// Returns the value.
    pub fn value(&self) -> &V {
        &self.value
    }

    /// Returns the generation: a number that increases when a fetch returns a different value, and after
    /// [`RefreshingCache::reestablish`](super::RefreshingCache::reestablish).
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the expiry. `None`: valid until the server rejects it.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Returns how long the fetch took.
    pub fn fetch_duration(&self) -> Duration {
        self.fetch_duration
    }

    /// Records that the server accepted the value. If the server rejects it later, it is replaced at once, even if it
    /// was itself fetched after a rejection.
    pub fn mark_accepted(&self) {
        set(&self.accepted);
    }

    /// Records that the value is in use and worth refreshing.
    pub(super) fn mark_used(&self) {
        set(&self.used);
    }

    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn was_expired(&self) -> bool {
        self.was_expired
    }

    /// Whether the value was fetched after a rejection, less than `within` ago, and was never accepted.
    pub(super) fn is_unaccepted_replacement(&self, now: ClockReading, within: Duration) -> bool {
        self.replaces_rejected && !self.accepted.load(Ordering::Relaxed) && self.age(now) < within
    }

    pub(super) fn age(&self, now: ClockReading) -> Duration {
        now.monotonic.saturating_sub(self.fetched_at)
    }

    /// Reads the clocks only if the value expires.
    pub(super) fn is_fresh(&self, clock: &dyn Clock) -> bool {
        self.lifetime.is_none_or(|life| clock.is_within(life.refresh_at.wall, life.refresh_at.monotonic))
    }

    pub(super) fn freshness(&self, now: ClockReading) -> Freshness {
        let Some(lifetime) = &self.lifetime else { return Freshness::Fresh };
        if now.is_within(&lifetime.refresh_at) {
            Freshness::Fresh
        } else if now.is_within(&lifetime.expires_at) {
            Freshness::Due
        } else {
            Freshness::Expired
        }
    }

    /// Returns the time until the refresh, or `None` if the value does not expire.
    pub(super) fn refresh_in(&self, now: ClockReading) -> Option<Duration> {
        self.lifetime.map(|lifetime| lifetime.refresh_at.monotonic.saturating_sub(now.monotonic))
    }
}

/// Stores only on change: all cores read these flags, and a store would invalidate their cache lines.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

impl<V: fmt::Debug> fmt::Debug for CachedValue<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedValue")
            .field("value", &self.value)
            .field("generation", &self.generation)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}
