//! Durations as kubectl's flags take them, and as people read them.

use std::time::Duration;

/// `--request-timeout`: `90` is seconds, `1m30s` is Go's way of writing it, and `0` is no limit.
pub(crate) fn timeout(text: &str) -> Result<Option<Duration>, String> {
    let limit = span(text).map_err(|how| format!("{how}; 0 is no limit"))?;
    Ok(Some(limit).filter(|limit| !limit.is_zero()))
}

/// `--linger`: the same, but `0` is no time at all.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<u32>().ok().map(|seconds| Duration::from_secs(seconds.into()));
    let how = || "give seconds, or a number and a unit: 30, 1m30s, 500ms".to_owned();
    seconds.or_else(|| parse(text)).ok_or_else(how)
}

/// One or more numbers with units: `1h2m3.5s`.
fn parse(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let (unit, factor) = UNITS.into_iter().find(|(unit, _)| rest[digits..].starts_with(unit))?;
        seconds += number * factor;
        rest = &rest[digits + unit.len()..];
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(seconds).ok())?
}

/// In one unit, two digits or more: `85 ms`, `12 s`, `59 min`, `3 h`, `12 days`.
pub(crate) fn rough(duration: Duration) -> String {
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
    fn a_timeout_is_seconds_or_go_s_way_of_writing_it() {
        let of = |text| timeout(text).unwrap().map(|limit| limit.as_millis());
        assert_eq!(of("30"), Some(30_000));
        assert_eq!(of("1m30s"), Some(90_000));
        assert_eq!(of("1.5h"), Some(5_400_000));
        assert_eq!(of("500ms"), Some(500));
        assert_eq!(of("0"), None);
        assert_eq!(of("0s"), None);
        assert_eq!(span("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn that_0_is_no_limit_is_said_where_it_is_true() {
        assert!(timeout("soon").unwrap_err().ends_with("; 0 is no limit"));
        assert!(!span("soon").unwrap_err().contains("no limit"));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "s", "1", "-1", "-5s", "1x", "1m30", "1..5s", "∞", "9e99s"] {
            assert_eq!(timeout(text).is_ok(), text == "1", "{text}");
        }
    }

    #[test]
    fn people_read_one_unit() {
        let text = |ms| rough(Duration::from_millis(ms));
        assert_eq!(text(0), "0 ms");
        assert_eq!(text(9_999), "9999 ms");
        assert_eq!(text(59_000), "59 s");
        assert_eq!(text(3_599_000), "59 min");
        assert_eq!(text(86_400_000), "24 h");
        assert_eq!(text(864_000_000), "10 days");
    }
}
