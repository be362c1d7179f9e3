//! Statistics of an entry: responses, plugin runs and their duration.
//!
//! They are stored behind the call records of the same entry (see [`rejection`](super::rejection)). Updates take no lock, so
//! one of two concurrent updates may be lost.

use std::fs::File;
use std::time::Duration;

use credlet_platform::fs::{read_at, write_all_at};

use super::{CacheKey, rejection};
use crate::store::{Store, StoreError};

/// Statistics of one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Responses to clients, with and without a plugin run.
    pub responses: u64,
    /// Plugin runs that a client waited for.
    pub runs: u64,
    /// Plugin runs in the background, ahead of expiry.
    pub refreshes: u64,
    /// Total duration of all runs.
    pub run_time: Duration,
}

impl CacheStats {
    const FIELDS: usize = 4;

    pub(super) fn load(store: &Store, key: &CacheKey) -> Result<Self, StoreError> {
        Self::read(&store.scratch(&rejection::file_name(key.as_str()))?)
    }

    /// Returns the number of responses without a plugin run.
    pub fn hits(&self) -> u64 {
        self.responses.saturating_sub(self.runs)
    }

    /// Returns the time that the hits saved, estimated by the mean duration of a run.
    pub fn saved(&self) -> Duration {
        let runs = u32::try_from(self.runs + self.refreshes).unwrap_or(u32::MAX).max(1);
        (self.run_time / runs).saturating_mul(u32::try_from(self.hits()).unwrap_or(u32::MAX))
    }

    /// Adds one response.
    pub(super) fn record_response(file: &File) -> Result<(), StoreError> {
        let stats = Self::read(file)?;
        Self { responses: stats.responses.saturating_add(1), ..stats }.write(file)
    }

    /// Adds one run of this duration.
    pub(super) fn record_run(
        store: &Store,
        key: &CacheKey,
        took: Duration,
        is_refresh: bool,
    ) -> Result<(), StoreError> {
        let file = store.scratch(&rejection::file_name(key.as_str()))?;
        let mut stats = Self::read(&file)?;
        let count = if is_refresh { &mut stats.refreshes } else { &mut stats.runs };
        *count = count.saturating_add(1);
        stats.run_time = stats.run_time.saturating_add(took);
        stats.write(&file)
    }

    fn read(file: &File) -> Result<Self, StoreError> {
        let mut bytes = [0; 8 * Self::FIELDS];
        let read = read_at(file, &mut bytes, rejection::STATS_OFFSET)?;
        if read < bytes.len() {
            return Ok(Self::default());
        }
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || words.next().unwrap_or_default();
        Ok(Self { responses: word(), runs: word(), refreshes: word(), run_time: Duration::from_micros(word()) })
    }

    fn write(self, file: &File) -> Result<(), StoreError> {
        // In microseconds, so that runs of less than a millisecond add up.
        let run_time = u64::try_from(self.run_time.as_micros()).unwrap_or(u64::MAX);
        let bytes = [self.responses, self.runs, self.refreshes, run_time].map(u64::to_le_bytes).concat();
        Ok(write_all_at(file, &bytes, rejection::STATS_OFFSET)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_time_is_hits_times_mean_run_time() {
        let stats = CacheStats { responses: 12, runs: 2, refreshes: 1, run_time: Duration::from_secs(6) };
        assert_eq!((stats.hits(), stats.saved()), (10, Duration::from_secs(20)));
        assert_eq!(CacheStats::default().saved(), Duration::ZERO);
    }

    #[test]
    fn submillisecond_run_times_are_kept() {
        let file = tempfile::tempfile().unwrap();
        let stats = CacheStats { responses: 3, runs: 2, refreshes: 0, run_time: Duration::from_micros(1800) };
        stats.write(&file).unwrap();
        assert_eq!(CacheStats::read(&file).unwrap(), stats);
    }
}
