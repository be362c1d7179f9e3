use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;

/// How often durations fell below each of some bounds.
#[derive(Debug)]
pub struct Histogram {
    /// In seconds, ascending.
    bounds: &'static [f64],
    seen: Mutex<Seen>,
}

/// Behind one lock, so that buckets, count and sum of one scrape belong together.
#[derive(Debug)]
struct Seen {
    /// One for each bound, not cumulative, and one for what is beyond the last.
    buckets: Vec<u64>,
    /// In whole nanoseconds: a sum of floats would depend on the order in which threads come.
    sum: i128,
}

/// A histogram at one moment.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    /// Each bound in seconds, with how many durations were at most that long.
    pub cumulative: Vec<(f64, u64)>,
    /// How many there were in all.
    pub count: u64,
    /// Their sum in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Nothing was seen yet. The bounds are in seconds, ascending.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, seen: Mutex::new(Seen { buckets: vec![0; bounds.len() + 1], sum: 0 }) }
    }

    /// Counts a duration. A negative one, by clocks that disagree, is below all bounds, as in Go.
    pub fn observe(&self, duration: SignedDuration) {
        let seconds = duration.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.buckets[bucket] += 1;
        seen.sum = seen.sum.saturating_add(duration.as_nanos());
    }

    /// All of it, as of now.
    pub fn snapshot(&self) -> Snapshot {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        let cumulative = |(bound, bucket): (&f64, &u64)| {
            count += bucket;
            (*bound, count)
        };
        let cumulative = self.bounds.iter().zip(&seen.buckets).map(cumulative).collect();
        Snapshot { cumulative, count: seen.buckets.iter().sum(), sum: seconds(seen.sum) }
    }
}

/// Whole seconds and the rest apart: more digits survive.
fn seconds(nanoseconds: i128) -> f64 {
    const SECOND: i128 = 1_000_000_000;
    (nanoseconds / SECOND) as f64 + (nanoseconds % SECOND) as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_every_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::new(&[1.0, 2.5]);
        for milliseconds in [-300, 1000, 1001, 2500, 2501] {
            histogram.observe(SignedDuration::from_millis(milliseconds));
        }
        assert_eq!(histogram.snapshot(), Snapshot { cumulative: vec![(1.0, 2), (2.5, 4)], count: 5, sum: 6.702 });
    }

    #[test]
    fn a_sum_of_tenths_is_exact() {
        let histogram = Histogram::new(&[]);
        for _ in 0..10 {
            histogram.observe(SignedDuration::from_millis(100));
        }
        assert_eq!(histogram.snapshot().sum, 1.0);
    }

    #[test]
    fn the_longest_durations_there_are_do_no_harm() {
        let histogram = Histogram::new(&[1.0]);
        histogram.observe(SignedDuration::MAX);
        histogram.observe(SignedDuration::MAX);
        histogram.observe(SignedDuration::MIN);
        let Snapshot { cumulative, count, sum } = histogram.snapshot();
        assert_eq!((cumulative, count), (vec![(1.0, 1)], 3));
        assert_eq!(sum, i64::MAX as f64);
    }
}
