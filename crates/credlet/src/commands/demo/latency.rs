use std::time::Duration;

/// Buckets per doubling: a percentile is off by at most a tenth. The range is 1 µs to more than an hour.
const STEPS: f64 = 8.0;
const BUCKETS: usize = 256;

/// Histogram of request durations with logarithmic buckets.
#[derive(Clone)]
pub(super) struct LatencyHistogram {
    counts: [u32; BUCKETS],
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl LatencyHistogram {
    pub(super) fn add(&mut self, took: Duration) {
        let microseconds = (took.as_secs_f64() * 1e6).max(1.0);
        let bucket = (microseconds.log2() * STEPS) as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
    }

    /// The duration within which this share of all requests completed, or `None` before the first.
    pub(super) fn percentile(&self, share: f64) -> Option<Duration> {
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
    fn percentiles_are_within_ten_percent() {
        let mut latency = LatencyHistogram::default();
        assert_eq!(latency.percentile(0.5), None);
        for milliseconds in 1..=100 {
            latency.add(Duration::from_millis(milliseconds));
        }
        for (share, milliseconds) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)] {
            let within = latency.percentile(share).unwrap().as_secs_f64() * 1e3;
            assert!((within / milliseconds - 1.0).abs() < 0.1, "{share}: {within}");
        }
        latency.add(Duration::ZERO);
        latency.add(Duration::MAX);
    }
}
