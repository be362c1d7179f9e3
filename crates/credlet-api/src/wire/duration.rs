//! Durations as Go's `time.Duration` writes and reads them.

use std::fmt::Write;
use std::time::Duration;

use jiff::SignedDuration;

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Not in the form `1h30m`, or more than 292 years.
    #[error("is not a duration such as `1h30m`, `90s` or `0`")]
    Invalid,
    /// A number and nothing after it.
    #[error("is a number without a unit: write `s`, `m` or `h` after it")]
    MissingUnit,
    /// Another unit than h, m, s, ms, µs and ns.
    #[error("has a unit that is none of h, m, s, ms, µs and ns")]
    UnknownUnit,
}

/// Reads `1h30m`, `1.5h`, `10ms`, `-1s`, `0`.
///
/// # Errors
/// Those of Go's `time.ParseDuration`.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Invalid);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Invalid);
        }
        let unit_length = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_length);
        let unit = match unit {
            "" => return Err(DurationError::MissingUnit),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000_u64,
            _ => return Err(DurationError::UnknownUnit),
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::Invalid)? };
        let part = format!("0.{fraction}0").parse::<f64>().unwrap_or_default() * unit as f64;
        let nanoseconds = whole.checked_mul(unit).and_then(|whole| whole.checked_add(part as u64));
        let sum = nanoseconds.and_then(|nanoseconds| total.checked_add(nanoseconds));
        total = sum.filter(|sum| *sum <= 1 << 63).ok_or(DurationError::Invalid)?;
        rest = after;
    }
    let signed = if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
    signed.map(SignedDuration::from_nanos).ok_or(DurationError::Invalid)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `1h30m0s`, `5m0s`, `1.5s`, `10ms`, `0s`.
pub fn format(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let with_fraction = |number: u128, unit: u128| {
        let fraction = format!("{:0width$}", number % unit, width = unit.ilog10() as usize);
        match fraction.trim_end_matches('0') {
            "" => (number / unit).to_string(),
            fraction => format!("{}.{fraction}", number / unit),
        }
    };
    match nanoseconds {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => format!("{}µs", with_fraction(nanoseconds, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", with_fraction(nanoseconds, 1_000_000)),
        _ => {
            let seconds = duration.as_secs();
            let mut text = String::new();
            // Writing into a String cannot fail.
            if seconds >= 3600 {
                let _ = write!(text, "{}h", seconds / 3600);
            }
            if seconds >= 60 {
                let _ = write!(text, "{}m", seconds / 60 % 60);
            }
            let _ = write!(text, "{}s", with_fraction(nanoseconds % 60_000_000_000, 1_000_000_000));
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (duration, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(7), "7ns"),
            (Duration::from_nanos(1_500), "1.5µs"),
            (Duration::from_millis(10), "10ms"),
            (Duration::from_micros(10_500), "10.5ms"),
            (Duration::from_secs(1), "1s"),
            (Duration::from_millis(1_500), "1.5s"),
            (Duration::from_secs(300), "5m0s"),
            (Duration::from_millis(61_001), "1m1.001s"),
            (Duration::from_secs(5_400), "1h30m0s"),
            (Duration::from_secs(360_000), "100h0m0s"),
        ] {
            assert_eq!(format(duration), expected);
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, milliseconds) in [
            ("0", 0),
            ("-0", 0),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("1.s", 1_000),
            ("10ms", 10),
            ("-1s", -1_000),
            ("+2m", 120_000),
            ("1000us", 1),
            ("1000\u{b5}s1000\u{3bc}s", 2),
        ] {
            assert_eq!(parse(text), Ok(SignedDuration::from_millis(milliseconds)), "{text}");
        }
        for (text, error) in [
            ("", DurationError::Invalid),
            ("-", DurationError::Invalid),
            ("abc", DurationError::Invalid),
            (".s", DurationError::Invalid),
            ("99999999999h", DurationError::Invalid),
            ("12", DurationError::MissingUnit),
            ("1h5", DurationError::MissingUnit),
            ("1d", DurationError::UnknownUnit),
            ("1h 5m", DurationError::UnknownUnit),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        assert_eq!(parse("-9223372036854775808ns"), Ok(SignedDuration::from_nanos(i64::MIN)));
        assert_eq!(parse("9223372036854775808ns"), Err(DurationError::Invalid));
    }
}
