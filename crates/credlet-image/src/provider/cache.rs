//! What a provider has answered, for as long as its answers may be used again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Answer;

/// How often everything that has expired is removed; what is asked for goes at once.
const PURGE: Duration = Duration::from_secs(15 * 60);

/// A moment by both clocks: the time of day can be set back, and the monotonic time stands still in sleep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Duration,
}

#[derive(Debug)]
pub(super) struct Cache {
    entries: HashMap<Vec<u8>, Remembered>,
    largest: usize,
    purged: Duration,
}

#[derive(Debug)]
struct Remembered {
    answer: Arc<Answer>,
    until: Now,
}

impl Remembered {
    /// Still good at its very last moment.
    fn is_good(&self, now: Now) -> bool {
        now.wall <= self.until.wall && now.monotonic <= self.until.monotonic
    }
}

impl Cache {
    pub(super) fn new(largest: usize) -> Self {
        Self { entries: HashMap::new(), largest, purged: Duration::ZERO }
    }

    pub(super) fn get(&mut self, key: &[u8], now: Now) -> Option<Arc<Answer>> {
        if now.monotonic.saturating_sub(self.purged) > PURGE {
            self.purged = now.monotonic;
            self.entries.retain(|_, entry| entry.is_good(now));
        }
        match self.entries.get(key) {
            Some(entry) if entry.is_good(now) => Some(Arc::clone(&entry.answer)),
            Some(_) => {
                self.entries.remove(key);
                None
            }
            None => None,
        }
    }

    pub(super) fn put(&mut self, key: Vec<u8>, answer: Arc<Answer>, lifetime: Duration, now: Now) {
        if lifetime.is_zero() {
            return;
        }
        let until = Now {
            wall: now.wall.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
            monotonic: now.monotonic.saturating_add(lifetime),
        };
        if self.entries.len() >= self.largest && !self.entries.contains_key(&key) {
            self.make_room(now);
        }
        self.entries.insert(key, Remembered { answer, until });
    }

    /// The next to expire goes first: it is the one whose loss costs least.
    fn make_room(&mut self, now: Now) {
        self.entries.retain(|_, entry| entry.is_good(now));
        if self.entries.len() >= self.largest {
            let first = self.entries.iter().min_by_key(|(_, entry)| entry.until.monotonic).map(|(key, _)| key.clone());
            if let Some(first) = first {
                self.entries.remove(&first);
            }
        }
    }

    /// Forgets the answers that `covers` says yes to.
    pub(super) fn forget(&mut self, covers: impl Fn(&Answer) -> bool) {
        self.entries.retain(|_, entry| !covers(&entry.answer));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
