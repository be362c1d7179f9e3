use jiff::Timestamp;
use zeroize::Zeroizing;

use super::calls::{self, Verdict};
use super::{Call, Entry, Mode, failure};
use crate::store::{Sealer, Store};

/// A plugin that gives the refused credential again is not asked more often than this.
const INSISTING_SECONDS: i64 = 30;

/// An answer from the cache.
pub struct Hit {
    /// The bytes to print.
    pub answer: Zeroizing<Vec<u8>>,
    /// Whether to start a process of this program, with the same words and [`Mode::AHEAD`], that renews it.
    pub ahead: bool,
}

impl std::fmt::Debug for Hit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hit").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

impl Call {
    /// The answer, if it is there and good. Takes no lock: files are replaced whole.
    ///
    /// `None`: go on with [`miss`](Self::miss).
    pub fn hit(&mut self, now: Timestamp) -> Option<Hit> {
        if self.is_uncached() || self.wants_new() || self.mode == Mode::Ahead {
            return None;
        }
        // Not yet made, or not ours: whoever writes will say so.
        let store = self.dir.as_deref().filter(|dir| dir.exists()).and_then(|dir| Store::open(dir).ok())?;
        let entry = self.entry(&store).filter(|entry| entry.is_fresh(now))?;
        let due = now >= entry.life.ahead;
        let answer = self.give(&store, entry, now)?;
        let alone = !self.question.as_ref().is_some_and(|question| question.spec.interactive);
        let quiet = alone && !failure::opens_a_browser(&self.options);
        let ahead = due && quiet && calls::may_run_ahead(&store, self.key.as_str(), now).unwrap_or(false);
        Some(Hit { answer, ahead })
    }

    /// The answer of a fresh entry, counted. `None`: it was refused, cannot be opened, or cannot be counted.
    pub(super) fn give(&mut self, store: &Store, entry: Entry, now: Timestamp) -> Option<Zeroizing<Vec<u8>>> {
        let insists = entry.refused.as_ref() == Some(&entry.digest)
            && now.duration_since(entry.life.created).as_secs() < INSISTING_SECONDS;
        let verdict = calls::count(store, self.key.as_str(), self.caller, self.came, entry.life.created, now).ok()?;
        if verdict == Verdict::Refused && !insists {
            self.refused = Some((entry.life.created, entry.digest));
            return None;
        }
        let keyring = self.keyring.clone();
        entry.answer(&self.key, || Sealer::new(keyring, store).ok())
    }
}
