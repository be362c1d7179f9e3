use std::time::Duration;

use jiff::Timestamp;

/// No password of a registry is remembered for longer, whatever it says about itself.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

/// How long a kubelet may remember a password that ends then: half of what is left, so that even the last one who gets it
/// has time for a long pull. Zero if nobody knows, or if it seems to be over: then the registry has the last word.
pub(super) fn remembered(ends: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = ends.map_or(0, |ends| ends.as_second().saturating_sub(now.as_second()));
    Duration::from_secs(u64::try_from(left).unwrap_or_default() / 2).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_remembered_for_half_of_its_life_and_never_beyond_it() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let left = |seconds: i64| remembered(Timestamp::from_second(1_000_000 + seconds).ok(), now).as_secs();
        assert_eq!((left(43_200), left(7), left(1)), (21_600, 3, 0));
        assert_eq!((left(0), left(-1), left(-900_000)), (0, 0, 0));
        assert_eq!(left(900_000_000), 43_200);
        assert_eq!(remembered(None, now), Duration::ZERO);
        assert_eq!(remembered(Some(Timestamp::MAX), Timestamp::MIN), LONGEST);
        assert_eq!(remembered(Some(Timestamp::MIN), Timestamp::MAX), Duration::ZERO);
    }
}
