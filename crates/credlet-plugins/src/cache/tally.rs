//! What a cache was good for: answers given, and runs of the plugin that took so long.
//!
//! The numbers lie behind the [calls](super::calls) of the same entry. Nobody locks them, so of two who count at the same
//! moment one may be lost.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use super::{Key, calls};
use crate::store::{Store, StoreError};

/// What was counted for one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers that clients got.
    pub answers: u64,
    /// Runs of the plugin for which a client waited.
    pub runs: u64,
    /// Runs for which nobody waited.
    pub ahead: u64,
    /// How long all of these took.
    pub ran: Duration,
}

impl Tally {
    const WORDS: usize = 4;

    pub(super) fn load(store: &Store, key: &Key) -> Result<Self, StoreError> {
        Self::read(&store.scratch(&calls::name(key.as_str()))?)
    }

    /// How many answers there were for which the plugin was not run.
    pub fn hits(&self) -> u64 {
        self.answers.saturating_sub(self.runs)
    }

    /// How long clients would have waited for these, if each run took as long as the others.
    pub fn saved(&self) -> Duration {
        let runs = u32::try_from(self.runs + self.ahead).unwrap_or(u32::MAX).max(1);
        (self.ran / runs).saturating_mul(u32::try_from(self.hits()).unwrap_or(u32::MAX))
    }

    /// One more answer.
    pub(super) fn answered(file: &File) -> Result<(), StoreError> {
        let tally = Self::read(file)?;
        Self { answers: tally.answers.saturating_add(1), ..tally }.write(file)
    }

    /// One more run.
    pub(super) fn ran(store: &Store, key: &Key, took: Duration, ahead: bool) -> Result<(), StoreError> {
        let file = store.scratch(&calls::name(key.as_str()))?;
        let mut tally = Self::read(&file)?;
        let count = if ahead { &mut tally.ahead } else { &mut tally.runs };
        *count = count.saturating_add(1);
        tally.ran = tally.ran.saturating_add(took);
        tally.write(&file)
    }

    fn read(file: &File) -> Result<Self, StoreError> {
        let mut bytes = [0; 8 * Self::WORDS];
        let read = file.read_at(&mut bytes, calls::TALLY)?;
        if read < bytes.len() {
            return Ok(Self::default());
        }
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || words.next().unwrap_or_default();
        Ok(Self { answers: word(), runs: word(), ahead: word(), ran: Duration::from_micros(word()) })
    }

    fn write(self, file: &File) -> Result<(), StoreError> {
        // In microseconds: a tick of the clock may be a little less than a millisecond, and would be cut to nothing.
        let ran = u64::try_from(self.ran.as_micros()).unwrap_or(u64::MAX);
        let bytes = [self.answers, self.runs, self.ahead, ran].map(u64::to_le_bytes).concat();
        Ok(file.write_all_at(&bytes, calls::TALLY)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_what_the_runs_that_were_not_would_have_taken() {
        let tally = Tally { answers: 12, runs: 2, ahead: 1, ran: Duration::from_secs(6) };
        assert_eq!((tally.hits(), tally.saved()), (10, Duration::from_secs(20)));
        assert_eq!(Tally::default().saved(), Duration::ZERO);
    }

    #[test]
    fn runs_that_take_no_millisecond_add_up() {
        let file = tempfile::tempfile().unwrap();
        let tally = Tally { answers: 3, runs: 2, ahead: 0, ran: Duration::from_micros(1800) };
        tally.write(&file).unwrap();
        assert_eq!(Tally::read(&file).unwrap(), tally);
    }
}
