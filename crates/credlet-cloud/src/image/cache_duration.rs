use std::time::Duration;

use jiff::Timestamp;

/// Maximum cache duration of a registry password.
const MAX_DURATION: Duration = Duration::from_secs(12 * 60 * 60);

/// Returns how long a kubelet may cache a password: half of its remaining lifetime, so that the last pull that uses it can complete.
/// Zero if the expiry is unknown or has passed.
pub(super) fn cache_duration(ends: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = ends.map_or(0, |ends| ends.as_second().saturating_sub(now.as_second()));
    Duration::from_secs(u64::try_from(left).unwrap_or_default() / 2).min(MAX_DURATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_remaining_lifetime() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let left = |seconds: i64| cache_duration(Timestamp::from_second(1_000_000 + seconds).ok(), now).as_secs();
        assert_eq!((left(43_200), left(7), left(1)), (21_600, 3, 0));
        assert_eq!((left(0), left(-1), left(-900_000)), (0, 0, 0));
        assert_eq!(left(900_000_000), 43_200);
        assert_eq!(cache_duration(None, now), Duration::ZERO);
        assert_eq!(cache_duration(Some(Timestamp::MAX), Timestamp::MIN), MAX_DURATION);
        assert_eq!(cache_duration(Some(Timestamp::MIN), Timestamp::MAX), Duration::ZERO);
    }
}
