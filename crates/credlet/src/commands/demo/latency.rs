use std::time::Duration;

/// Eight to a doubling, so that a value is off by a tenth at most; from 1 µs to beyond an hour.
const STEPS: f64 = 8.0;
const BUCKETS: usize = 256;

/// How long requests took, in little room.
#[derive(Clone)]
pub(super) struct Latency {
    counts: [u32; BUCKETS],
}

impl Default for Latency {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Latency {
    pub(super) fn add(&mut self, took: Duration) {
        let microseconds = (took.as_secs_f64() * 1e6).max(1.0);
        let bucket = (microseconds.log2() * STEPS) as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
    }

    /// The time within which this share of all requests had their answers. `None` before the first.
    pub(super) fn within(&self, share: f64) -> Option<Duration> {
        let total: u32 = self.counts.iter().sum();
        let enough = f64::from(total) * share;
        let mut sum = 0;
        let bucket = self.counts.iter().position(|count| {
            sum += count;
            sum > 0 && f64::from(sum) >= enough
        })?;
        let microseconds = ((bucket as f64 + 0.5) / STEPS).exp2();
        Some(Duration::from_secs_f64(microseconds / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_right_by_a_tenth() {
        let mut latency = Latency::default();
        assert_eq!(latency.within(0.5), None);
        for milliseconds in 1..=100 {
            latency.add(Duration::from_millis(milliseconds));
        }
        for (share, milliseconds) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)] {
            let within = latency.within(share).unwrap().as_secs_f64() * 1e3;
            assert!((within / milliseconds - 1.0).abs() < 0.1, "{share}: {within}");
        }
        latency.add(Duration::ZERO);
        latency.add(Duration::MAX);
    }
}
