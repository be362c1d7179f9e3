//! Durations: parsing of flag values, formatting for terminal output.

use std::time::Duration;

/// Parses `--request-timeout`: seconds (`90`) or a Go duration (`1m30s`). Returns `None` for `0`, which disables the limit.
pub(crate) fn parse_timeout(text: &str) -> Result<Option<Duration>, String> {
    let limit = parse_duration(text).map_err(|how| format!("{how}; 0 disables the limit"))?;
    Ok(Some(limit).filter(|limit| !limit.is_zero()))
}

/// Parses a duration in the same format; `0` is a duration of zero.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = credlet_api::duration::parse_or_seconds(text);
    parsed.map_err(|_| "must be seconds or a duration with units: 30, 1m30s, 500ms".to_owned())
}

/// Formats a duration in one unit, rounded down: `85 ms`, `12 s`, `59 min`, `3 h`, `12 days`.
pub(crate) fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match duration.as_millis() {
        0..10_000 => format!("{} ms", duration.as_millis()),
        10_000..120_000 => format!("{seconds} s"),
        120_000..7_200_000 => format!("{} min", seconds / 60),
        7_200_000..172_800_000 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_seconds_and_go_durations() {
        let of = |text| parse_timeout(text).unwrap().map(|limit| limit.as_millis());
        assert_eq!(of("30"), Some(30_000));
        assert_eq!(of("1m30s"), Some(90_000));
        assert_eq!(of("1.5h"), Some(5_400_000));
        assert_eq!(of("500ms"), Some(500));
        assert_eq!(of("0"), None);
        assert_eq!(of("0s"), None);
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn zero_disables_only_the_timeout() {
        assert!(parse_timeout("soon").unwrap_err().ends_with("; 0 disables the limit"));
        assert!(!parse_duration("soon").unwrap_err().contains("limit"));
    }

    #[test]
    fn rejects_other_formats() {
        for text in ["", "s", "1", "-1", "-5s", "1x", "1m30", "1..5s", "∞", "9e99s"] {
            assert_eq!(parse_timeout(text).is_ok(), text == "1", "{text}");
        }
    }

    #[test]
    fn formats_durations_in_one_unit() {
        let text = |ms| format_duration(Duration::from_millis(ms));
        assert_eq!(text(0), "0 ms");
        assert_eq!(text(9_999), "9999 ms");
        assert_eq!(text(59_000), "59 s");
        assert_eq!(text(3_599_000), "59 min");
        assert_eq!(text(86_400_000), "24 h");
        assert_eq!(text(864_000_000), "10 days");
    }
}
