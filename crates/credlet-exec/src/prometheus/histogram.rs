use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;

/// A histogram of durations.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds in seconds, ascending.
    bounds: &'static [f64],
    counts: Mutex<Counts>,
}

/// Under one lock, so that buckets, count and sum of a snapshot are consistent.
#[derive(Debug)]
struct Counts {
    /// One per bound, not cumulative, and one for larger values.
    buckets: Vec<u64>,
    /// In nanoseconds. A sum of floats would depend on the order of observations.
    sum: i128,
}

/// State of a [`Histogram`] at one time.
#[derive(Debug, PartialEq)]
pub struct HistogramSnapshot {
    /// Each bound in seconds with the number of durations up to it.
    pub cumulative: Vec<(f64, u64)>,
    /// Number of all durations.
    pub count: u64,
    /// Sum in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Creates an empty histogram. `bounds` are upper bounds in seconds, ascending.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: Mutex::new(Counts { buckets: vec![0; bounds.len() + 1], sum: 0 }) }
    }

    /// Counts a duration. A negative one is in the first bucket, as in Go.
    pub fn observe(&self, duration: SignedDuration) {
        let seconds = duration.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.buckets[bucket] += 1;
        counts.sum = counts.sum.saturating_add(duration.as_nanos());
    }

    /// Returns the current counts.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        let cumulative = |(bound, bucket): (&f64, &u64)| {
            count += bucket;
            (*bound, count)
        };
        let cumulative = self.bounds.iter().zip(&counts.buckets).map(cumulative).collect();
        HistogramSnapshot { cumulative, count: counts.buckets.iter().sum(), sum: seconds(counts.sum) }
    }
}

/// Converts seconds and the fraction separately, for precision.
fn seconds(nanoseconds: i128) -> f64 {
    const SECOND: i128 = 1_000_000_000;
    (nanoseconds / SECOND) as f64 + (nanoseconds % SECOND) as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let histogram = Histogram::new(&[1.0, 2.5]);
        for milliseconds in [-300, 1000, 1001, 2500, 2501] {
            histogram.observe(SignedDuration::from_millis(milliseconds));
        }
        assert_eq!(
            histogram.snapshot(),
            HistogramSnapshot { cumulative: vec![(1.0, 2), (2.5, 4)], count: 5, sum: 6.702 }
        );
    }

    #[test]
    fn sum_of_tenths_is_exact() {
        let histogram = Histogram::new(&[]);
        for _ in 0..10 {
            histogram.observe(SignedDuration::from_millis(100));
        }
        assert_eq!(histogram.snapshot().sum, 1.0);
    }

    #[test]
    fn extreme_durations_do_not_overflow() {
        let histogram = Histogram::new(&[1.0]);
        histogram.observe(SignedDuration::MAX);
        histogram.observe(SignedDuration::MAX);
        histogram.observe(SignedDuration::MIN);
        let HistogramSnapshot { cumulative, count, sum } = histogram.snapshot();
        assert_eq!((cumulative, count), (vec![(1.0, 1)], 3));
        assert_eq!(sum, i64::MAX as f64);
    }
}
