//! Durations in the format of Go's `time.Duration`. Every duration that credlet reads has this format: `1h30m`, `90s`,
//! `500ms`.

use std::fmt::Write;
use std::time::Duration;

use jiff::SignedDuration;

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseDurationError {
    /// Not in the form `1h30m`, or more than 292 years.
    #[error("invalid duration, expected for example `1h30m`, `90s` or `0`")]
    Invalid,
    /// A number without a unit.
    #[error("missing unit, write `s`, `m` or `h` after the number")]
    MissingUnit,
    /// Another unit than h, m, s, ms, µs and ns.
    #[error("unknown unit, expected h, m, s, ms, µs or ns")]
    UnknownUnit,
    /// Less than zero where that is not allowed.
    #[error("the duration must not be negative")]
    Negative,
}

/// Parses `1h30m`, `1.5h`, `10ms`, `-1s` or `0` as Go's `time.ParseDuration` does.
///
/// # Errors
/// If `text` is not a duration or does not fit into 64 bits of nanoseconds.
pub fn parse(text: &str) -> Result<SignedDuration, ParseDurationError> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(ParseDurationError::Invalid);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(ParseDurationError::Invalid);
        }
        let unit_length = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_length);
        let unit = match unit {
            "" => return Err(ParseDurationError::MissingUnit),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000_u64,
            _ => return Err(ParseDurationError::UnknownUnit),
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| ParseDurationError::Invalid)? };
        // In Go's order: another one rounds to a different nanosecond.
        let (numerator, scale) = leading_fraction(fraction);
        let part = numerator as f64 * (unit as f64 / scale);
        let nanoseconds = whole.checked_mul(unit).and_then(|whole| whole.checked_add(part as u64));
        let sum = nanoseconds.and_then(|nanoseconds| total.checked_add(nanoseconds));
        total = sum.filter(|sum| *sum <= 1 << 63).ok_or(ParseDurationError::Invalid)?;
        rest = after;
    }
    let signed = if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
    signed.map(SignedDuration::from_nanos).ok_or(ParseDurationError::Invalid)
}

/// Parses a duration that must not be negative.
///
/// # Errors
/// As for [`parse`], and if the duration is negative.
pub fn parse_unsigned(text: &str) -> Result<Duration, ParseDurationError> {
    Duration::try_from(parse(text)?).map_err(|_| ParseDurationError::Negative)
}

/// Parses the value of a command-line flag: a plain number of seconds (`90`), as kubectl's `--request-timeout` accepts,
/// or a duration that must not be negative.
///
/// # Errors
/// As for [`parse_unsigned`].
pub fn parse_or_seconds(text: &str) -> Result<Duration, ParseDurationError> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => parse_unsigned(text),
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The digits after a decimal point as a number, and its divisor (Go's `leadingFraction`). Digits that do not
/// fit are ignored.
fn leading_fraction(digits: &str) -> (u64, f64) {
    const LARGEST: u64 = i64::MAX.unsigned_abs();
    let (mut number, mut scale) = (0_u64, 1.0);
    for digit in digits.bytes() {
        let next = number.checked_mul(10).and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
        match next.filter(|next| number <= LARGEST / 10 && *next <= 1 << 63) {
            Some(next) => (number, scale) = (next, scale * 10.0),
            None => break,
        }
    }
    (number, scale)
}

/// Formats a duration as Go's `Duration.String` does: `1h30m0s`, `5m0s`, `1.5s`, `10ms`, `0s`.
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
    fn format_matches_go() {
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
    fn flags_accept_seconds_and_durations() {
        for (text, milliseconds) in
            [("30", 30_000), ("0", 0), ("0s", 0), ("1m30s", 90_000), ("1.5h", 5_400_000), ("500ms", 500)]
        {
            assert_eq!(parse_or_seconds(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(parse_or_seconds("-5s"), Err(ParseDurationError::Negative));
        assert_eq!(parse_or_seconds("-1"), Err(ParseDurationError::MissingUnit));
        for text in ["", "s", "1x", "1m30", "1..5s", "\u{221e}", "9e99s"] {
            assert!(parse_or_seconds(text).is_err(), "{text}");
        }
        assert_eq!(parse_unsigned("30"), Err(ParseDurationError::MissingUnit));
    }

    #[test]
    fn parse_matches_go() {
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
            ("", ParseDurationError::Invalid),
            ("-", ParseDurationError::Invalid),
            ("abc", ParseDurationError::Invalid),
            (".s", ParseDurationError::Invalid),
            ("99999999999h", ParseDurationError::Invalid),
            ("12", ParseDurationError::MissingUnit),
            ("1h5", ParseDurationError::MissingUnit),
            ("1d", ParseDurationError::UnknownUnit),
            ("1h 5m", ParseDurationError::UnknownUnit),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        // Found by fuzzing: values of Go's time.ParseDuration.
        for (text, nanoseconds) in [
            ("0.5000005s", 500_000_500),
            ("0us.50us.5s31m", 1_860_500_000_500),
            ("0.3333333333333333333333h", 1_200_000_000_000),
            ("0.9223372036854775808s", 922_337_203),
        ] {
            assert_eq!(parse(text), Ok(SignedDuration::from_nanos(nanoseconds)), "{text}");
        }
        assert_eq!(parse("-9223372036854775808ns"), Ok(SignedDuration::from_nanos(i64::MIN)));
        assert_eq!(parse("9223372036854775808ns"), Err(ParseDurationError::Invalid));
    }
}
