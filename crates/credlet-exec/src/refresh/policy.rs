use std::time::Duration;

/// When a [`RefreshingCache`](super::RefreshingCache) refreshes, retries and backs off.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RefreshPolicy {
    /// Minimum refresh lead as a fraction of the lifetime. Default: 0.01.
    pub refresh_ahead_ratio: f64,
    /// Minimum refresh lead as a multiple of the duration of the last fetch. Default: 2.
    pub refresh_ahead_runs: u32,
    /// Maximum refresh lead, which is also limited to half of the lifetime. Default: 60 s.
    pub refresh_ahead_max: Duration,
    /// Backoff after the first failure, doubled with each further one. Default: 1 s.
    pub backoff_initial: Duration,
    /// Maximum backoff. Default: 60 s.
    pub backoff_max: Duration,
    /// Maximum backoff before an endpoint that is lost repeatedly is re-established. Default: 30 s.
    pub reestablish_backoff_max: Duration,
    /// An endpoint that lasted this long is re-established without backoff. Default: 60 s.
    pub healthy_after: Duration,
    /// Maximum random reduction of a backoff, as a fraction, so that many processes do not retry in step. Default: 0.2.
    pub jitter: f64,
    /// Minimum interval before the next fetch after one that returned an expired or just rejected value. Default: 10 s.
    pub min_interval: Duration,
}

impl Default for RefreshPolicy {
    fn default() -> Self {
        Self {
            refresh_ahead_ratio: 0.01,
            refresh_ahead_runs: 2,
            refresh_ahead_max: Duration::from_secs(60),
            backoff_initial: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            reestablish_backoff_max: Duration::from_secs(30),
            healthy_after: Duration::from_secs(60),
            jitter: 0.2,
            min_interval: Duration::from_secs(10),
        }
    }
}

impl RefreshPolicy {
    /// The backoff after a failure that followed `failures` consecutive ones.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let doubled = self.backoff_initial.saturating_mul(2_u32.saturating_pow(failures));
        doubled.min(self.backoff_max).mul_f64(1.0 - self.jitter.clamp(0.0, 1.0) * fastrand::f64())
    }

    /// The delay before an endpoint is re-established that was lost soon after each of the last `attempts`
    /// attempts.
    pub(super) fn reestablish_delay(&self, attempts: u32) -> Duration {
        match attempts.checked_sub(1) {
            None => Duration::ZERO,
            Some(failures) => Self { backoff_max: self.reestablish_backoff_max, ..*self }.backoff(failures),
        }
    }

    /// Returns how long before the end of `lifetime` to refresh if the last fetch took `fetch_duration`.
    pub(super) fn refresh_ahead(&self, lifetime: Duration, fetch_duration: Duration) -> Duration {
        lifetime
            .mul_f64(self.refresh_ahead_ratio.clamp(0.0, 1.0))
            .max(fetch_duration.saturating_mul(self.refresh_ahead_runs))
            .min(self.refresh_ahead_max)
            .min(lifetime / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn backoff_doubles_up_to_the_maximum() {
        let exact = RefreshPolicy { jitter: 0.0, ..RefreshPolicy::default() };
        let delays: Vec<_> = (0..8).map(|failures| exact.backoff(failures)).collect();
        assert_eq!(delays, [s(1), s(2), s(4), s(8), s(16), s(32), s(60), s(60)]);
        assert_eq!(exact.backoff(u32::MAX), s(60));
        for _ in 0..1000 {
            let delay = RefreshPolicy::default().backoff(6);
            assert!(s(48) <= delay && delay <= s(60), "{delay:?}");
        }
    }

    #[test]
    fn refresh_lead_depends_on_lifetime_and_fetch_time() {
        let policy = RefreshPolicy::default();
        assert_eq!(policy.refresh_ahead(s(3600), s(1)), s(36));
        assert_eq!(policy.refresh_ahead(s(900), s(20)), s(40));
        assert_eq!(policy.refresh_ahead(s(86_400), s(1)), s(60));
        assert_eq!(policy.refresh_ahead(s(3600), s(100)), s(60));
        // Limited to half of the lifetime.
        assert_eq!(policy.refresh_ahead(s(2), s(5)), s(1));
        assert_eq!(policy.refresh_ahead(Duration::ZERO, s(5)), Duration::ZERO);
    }
}
