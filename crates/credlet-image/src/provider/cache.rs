//! Cache of a provider's responses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::ProviderResponse;

/// Interval at which all expired responses are removed. A requested one is removed at once.
const PURGE_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// Wall clock and monotonic clock: the first can be set back, the second stops during suspend.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Duration,
}

#[derive(Debug)]
pub(super) struct ResponseCache {
    entries: HashMap<Vec<u8>, CachedResponse>,
    max_len: usize,
    last_purge: Duration,
}

#[derive(Debug)]
struct CachedResponse {
    response: Arc<ProviderResponse>,
    expires: ClockReading,
}

impl CachedResponse {
    /// Inclusive, like the kubelet's cache.
    fn is_valid(&self, now: ClockReading) -> bool {
        now.wall <= self.expires.wall && now.monotonic <= self.expires.monotonic
    }
}

impl ResponseCache {
    pub(super) fn new(max_len: usize) -> Self {
        Self { entries: HashMap::new(), max_len, last_purge: Duration::ZERO }
    }

    pub(super) fn get(&mut self, key: &[u8], now: ClockReading) -> Option<Arc<ProviderResponse>> {
        if now.monotonic.saturating_sub(self.last_purge) > PURGE_INTERVAL {
            self.last_purge = now.monotonic;
            self.entries.retain(|_, entry| entry.is_valid(now));
        }
        match self.entries.get(key) {
            Some(entry) if entry.is_valid(now) => Some(Arc::clone(&entry.response)),
            Some(_) => {
                self.entries.remove(key);
                None
            }
            None => None,
        }
    }

    pub(super) fn insert(
        &mut self,
        key: Vec<u8>,
        response: Arc<ProviderResponse>,
        lifetime: Duration,
        now: ClockReading,
    ) {
        if lifetime.is_zero() {
            return;
        }
        let expires = ClockReading {
            wall: now.wall.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
            monotonic: now.monotonic.saturating_add(lifetime),
        };
        if self.entries.len() >= self.max_len && !self.entries.contains_key(&key) {
            self.evict_one(now);
        }
        self.entries.insert(key, CachedResponse { response, expires });
    }

    /// Evicts the expired responses, or else the one that expires next.
    fn evict_one(&mut self, now: ClockReading) {
        self.entries.retain(|_, entry| entry.is_valid(now));
        if self.entries.len() >= self.max_len {
            let first =
                self.entries.iter().min_by_key(|(_, entry)| entry.expires.monotonic).map(|(key, _)| key.clone());
            if let Some(first) = first {
                self.entries.remove(&first);
            }
        }
    }

    /// Evicts the responses for which `covers` returns true.
    pub(super) fn evict(&mut self, covers: impl Fn(&ProviderResponse) -> bool) {
        self.entries.retain(|_, entry| !covers(&entry.response));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
