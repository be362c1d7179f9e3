use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use super::{Fetched, Patience};
use crate::clock::Clock;

/// A value that was fetched, and how long it is good for.
pub struct Entry<V> {
    value: V,
    generation: u64,
    expires: Option<Timestamp>,
    life: Option<Life>,
    fetched: Duration,
    took: Duration,
    was_expired: bool,
    replaces_refused: bool,
    accepted: AtomicBool,
    used: AtomicBool,
}

/// The end of a value's life, by both clocks: whichever comes first. The time of day can be set back, and the monotonic
/// time stands still while a laptop sleeps.
#[derive(Clone, Copy, Debug)]
struct Life {
    due: Now,
    ends: Now,
}

/// A moment, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Duration,
}

impl Now {
    /// Up to and including: a credential is good until its expiry has passed.
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
pub(super) enum Phase {
    Fresh,
    Due,
    Expired,
}

impl<V> Entry<V> {
    pub(super) fn new(
        fetched: Fetched<V>,
        generation: u64,
        now: Now,
        took: Duration,
        replaces_refused: bool,
        patience: &Patience,
    ) -> Self {
        let lifetime = fetched.expires.map(|expires| {
            // Negative when it had expired before it came: then it serves those who waited for it and, by the monotonic
            // time alone, those who come right after, rather than being fetched again and again.
            Duration::try_from(expires.duration_since(now.wall)).ok()
        });
        let was_expired = lifetime == Some(None);
        let life = lifetime.map(|lifetime| match lifetime {
            Some(lifetime) => Life {
                due: now.after(lifetime.saturating_sub(patience.ahead(lifetime, took))),
                ends: now.after(lifetime),
            },
            None => {
                let ends = Now { wall: Timestamp::MAX, ..now.after(patience.minimum_interval) };
                Life { due: ends, ends }
            }
        });
        Self {
            value: fetched.value,
            generation,
            expires: fetched.expires,
            life,
            fetched: now.monotonic,
            took,
            was_expired,
            replaces_refused,
            accepted: AtomicBool::new(false),
            used: AtomicBool::new(false),
        }
    }

    /// The value.
    pub fn value(&self) -> &V {
        &self.value
    }

    /// Changes whenever the value does, and when it was brought back after it had gone; only then.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// When it must no longer be used. `None`: good until it is refused.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// How long it took to fetch.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Notes that the server has accepted it. Should it be refused later, it is worth replacing at once, even if it
    /// is itself a replacement.
    pub fn accept(&self) {
        set(&self.accepted);
    }

    /// Notes that somebody uses it, and that it is therefore worth renewing.
    pub(super) fn touch(&self) {
        set(&self.used);
    }

    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn was_expired(&self) -> bool {
        self.was_expired
    }

    pub(super) fn is_refused_replacement(&self, now: Now, within: Duration) -> bool {
        self.replaces_refused
            && !self.accepted.load(Ordering::Relaxed)
            && now.monotonic < self.fetched.saturating_add(within)
    }

    /// How long ago it was fetched.
    pub(super) fn age(&self, now: Now) -> Duration {
        now.monotonic.saturating_sub(self.fetched)
    }

    /// The clocks are read only for a value that has an end.
    pub(super) fn is_fresh(&self, clock: &dyn Clock) -> bool {
        self.life.is_none_or(|life| clock.is_within(life.due.wall, life.due.monotonic))
    }

    pub(super) fn phase(&self, now: Now) -> Phase {
        let Some(life) = &self.life else { return Phase::Fresh };
        if now.is_within(&life.due) {
            Phase::Fresh
        } else if now.is_within(&life.ends) {
            Phase::Due
        } else {
            Phase::Expired
        }
    }

    /// How long until it should be renewed.
    pub(super) fn due_in(&self, now: Now) -> Option<Duration> {
        self.life.map(|life| life.due.monotonic.saturating_sub(now.monotonic))
    }
}

/// Readers on all cores look at these: one that is set already is not written again.
fn set(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

impl<V: fmt::Debug> fmt::Debug for Entry<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("value", &self.value)
            .field("generation", &self.generation)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}
