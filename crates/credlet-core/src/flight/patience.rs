use std::time::Duration;

/// How soon, how often and how long to wait: all settings of a [`Flight`](super::Flight), with their defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Patience {
    /// Renew ahead of the end by at least this part of the lifetime: 0.01.
    pub ahead_share: f64,
    /// Renew ahead by at least this many times the last run's duration: 2.
    pub ahead_runs: u32,
    /// Renew ahead by at most this: 60 s. Never by more than half the lifetime either.
    pub ahead_at_most: Duration,
    /// The pause after the first failure: 1 s. It doubles with each further one.
    pub back_off_first: Duration,
    /// The longest pause: 60 s.
    pub back_off_at_most: Duration,
    /// The longest pause before something is brought back that goes again and again: 30 s.
    pub return_at_most: Duration,
    /// What has lasted this long before it went counts as healthy, and is brought back at once: 60 s.
    pub healthy: Duration,
    /// Pauses are shortened by chance by up to this part, so that many programs do not come back in step: 0.2.
    pub jitter: f64,
    /// How long a source is left alone that gave something useless (expired, or what was just refused): 10 s.
    pub minimum_interval: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            ahead_share: 0.01,
            ahead_runs: 2,
            ahead_at_most: Duration::from_secs(60),
            back_off_first: Duration::from_secs(1),
            back_off_at_most: Duration::from_secs(60),
            return_at_most: Duration::from_secs(30),
            healthy: Duration::from_secs(60),
            jitter: 0.2,
            minimum_interval: Duration::from_secs(10),
        }
    }
}

impl Patience {
    /// The pause after a failure that `failures` others came before.
    pub(super) fn back_off(&self, failures: u32) -> Duration {
        let doubled = self.back_off_first.saturating_mul(2_u32.saturating_pow(failures));
        doubled.min(self.back_off_at_most).mul_f64(1.0 - self.jitter.clamp(0.0, 1.0) * fastrand::f64())
    }

    /// The pause before something is brought back that was brought back `returns` times in vain.
    pub(super) fn before_return(&self, returns: u32) -> Duration {
        match returns.checked_sub(1) {
            None => Duration::ZERO,
            Some(before) => Self { back_off_at_most: self.return_at_most, ..*self }.back_off(before),
        }
    }

    /// How long before the end of a lifetime to renew, when the last run took `took`.
    pub(super) fn ahead(&self, lifetime: Duration, took: Duration) -> Duration {
        lifetime
            .mul_f64(self.ahead_share.clamp(0.0, 1.0))
            .max(took.saturating_mul(self.ahead_runs))
            .min(self.ahead_at_most)
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
    fn pauses_double_up_to_a_minute_and_chance_only_shortens_them() {
        let exact = Patience { jitter: 0.0, ..Patience::default() };
        let pauses: Vec<_> = (0..8).map(|failures| exact.back_off(failures)).collect();
        assert_eq!(pauses, [s(1), s(2), s(4), s(8), s(16), s(32), s(60), s(60)]);
        assert_eq!(exact.back_off(u32::MAX), s(60));
        for _ in 0..1000 {
            let pause = Patience::default().back_off(6);
            assert!(s(48) <= pause && pause <= s(60), "{pause:?}");
        }
    }

    #[test]
    fn renewal_is_ahead_by_a_hundredth_of_the_life_or_two_runs_but_a_minute_at_most() {
        let patience = Patience::default();
        assert_eq!(patience.ahead(s(3600), s(1)), s(36));
        assert_eq!(patience.ahead(s(900), s(20)), s(40));
        assert_eq!(patience.ahead(s(86_400), s(1)), s(60));
        assert_eq!(patience.ahead(s(3600), s(100)), s(60));
        // A life shorter than the run: half of it is all there is.
        assert_eq!(patience.ahead(s(2), s(5)), s(1));
        assert_eq!(patience.ahead(Duration::ZERO, s(5)), Duration::ZERO);
    }
}
