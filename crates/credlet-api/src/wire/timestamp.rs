//! RFC 3339 times with the deviations of Go's `time.Parse(time.RFC3339, …)`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};

/// Parses exactly the times that Go parses: upper-case `T` and `Z`, no spaces, a fraction behind a point or a comma, an
/// optional leading zero of the hour, offsets up to 24:60.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let mut rest = ByteCursor(text.as_bytes());
    let year = rest.digits(4)?;
    rest.exactly(b'-')?;
    let month = rest.digits(2)?;
    rest.exactly(b'-')?;
    let day = rest.digits(2)?;
    rest.exactly(b'T')?;
    let hour = if rest.0.get(1).is_some_and(u8::is_ascii_digit) { rest.digits(2)? } else { rest.digits(1)? };
    rest.exactly(b':')?;
    let minute = rest.digits(2)?;
    rest.exactly(b':')?;
    let second = rest.digits(2)?;
    let nanosecond = rest.fraction();
    let offset = rest.offset()?;
    if !rest.0.is_empty() {
        return None;
    }
    let date = Date::new(i16::try_from(year).ok()?, to_i8(month)?, to_i8(day)?).ok()?;
    let time = Time::new(to_i8(hour)?, to_i8(minute)?, to_i8(second)?, nanosecond).ok()?;
    // `Timestamp` does not cover the last two days of the year 9999, which some plugins write for "never".
    let utc = jiff::tz::Offset::UTC.to_timestamp(DateTime::from_parts(date, time)).unwrap_or(Timestamp::MAX);
    let time = utc.saturating_sub(jiff::SignedDuration::from_secs(offset)).ok()?;
    // An offset can shift the time before year 0, which RFC 3339 cannot represent.
    Some(time.max(year_zero()))
}

/// Formats in UTC with whole seconds, as Kubernetes does. The fraction is truncated, so that the text is never later
/// than the time.
pub(crate) fn format(time: Timestamp) -> String {
    // Euclidean division rounds towards the past, also before 1970.
    let whole = time.as_nanosecond().div_euclid(1_000_000_000);
    let whole = i64::try_from(whole).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or(time);
    whole.to_string()
}

fn year_zero() -> Timestamp {
    Timestamp::from_second(-62_167_219_200).unwrap_or(Timestamp::MIN)
}

fn to_i8(number: u32) -> Option<i8> {
    i8::try_from(number).ok()
}

struct ByteCursor<'a>(&'a [u8]);

impl ByteCursor<'_> {
    fn exactly(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let number = digits.iter().try_fold(0, |sum, d| d.is_ascii_digit().then(|| sum * 10 + u32::from(*d - b'0')))?;
        self.0 = rest;
        Some(number)
    }

    /// Returns nanoseconds; further digits are ignored.
    fn fraction(&mut self) -> i32 {
        let [b'.' | b',', digits @ ..] = self.0 else { return 0 };
        let count = digits.iter().take_while(|d| d.is_ascii_digit()).count();
        if count == 0 {
            return 0;
        }
        let nanoseconds = digits[..count]
            .iter()
            .chain(std::iter::repeat(&b'0'))
            .take(9)
            .fold(0, |sum, d| sum * 10 + i32::from(*d - b'0'));
        self.0 = &digits[count..];
        nanoseconds
    }

    /// Returns the offset from UTC in seconds.
    fn offset(&mut self) -> Option<i64> {
        let sign = match self.0.first()? {
            b'Z' => {
                self.exactly(b'Z')?;
                return Some(0);
            }
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.0 = &self.0[1..];
        let hours = self.digits(2)?;
        self.exactly(b':')?;
        let minutes = self.digits(2)?;
        // Go accepts 24 hours and 60 minutes.
        (hours <= 24 && minutes <= 60).then_some(sign * i64::from(hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_go_parses() {
        for (text, expected) in [
            ("2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z"),
            ("2030-01-02T03:04:05.123456789Z", "2030-01-02T03:04:05.123456789Z"),
            ("2030-01-02T03:04:05,5Z", "2030-01-02T03:04:05.5Z"),
            ("2030-01-02T03:04:05.1234567899Z", "2030-01-02T03:04:05.123456789Z"),
            ("2030-01-02T03:04:05+02:00", "2030-01-02T01:04:05Z"),
            ("2030-01-02T03:04:05-02:30", "2030-01-02T05:34:05Z"),
            ("2030-01-02T3:04:05Z", "2030-01-02T03:04:05Z"),
            ("2030-01-02T03:04:05+24:60", "2030-01-01T02:04:05Z"),
        ] {
            assert_eq!(parse(text), Some(expected.parse().unwrap()), "{text}");
        }
        assert_eq!(parse("9999-12-31T23:59:59Z"), Some(Timestamp::MAX));
        let first = Some("0000-01-01T00:00:00Z".parse().unwrap());
        assert_eq!((parse("0000-01-01T00:00:00Z"), parse("0000-01-01T00:00:00+24:60")), (first, first));
    }

    #[test]
    fn rejects_what_go_rejects() {
        for text in [
            "",
            "tomorrow",
            "1700000000",
            "2030-01-02",
            "2030-01-02 03:04:05Z",
            "2030-01-02t03:04:05z",
            "2030-01-02T03:04:05",
            "2030-01-02T03:04:05.Z",
            "2030-01-02T03:04:60Z",
            "2030-01-02T24:04:05Z",
            "2030-02-30T03:04:05Z",
            "2030-13-02T03:04:05Z",
            "2030-1-2T03:04:05Z",
            "+030-01-02T03:04:05Z",
            "2030-01-02T03:04:05+25:00",
            "2030-01-02T03:04:05+01:61",
            "2030-01-02T03:04:05+0100",
            "2030-01-02T03:04:05Z ",
            "２０30-01-02T03:04:05Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn format_never_rounds_up() {
        let time: Timestamp = "2030-01-02T03:04:05.999Z".parse().unwrap();
        assert_eq!(format(time), "2030-01-02T03:04:05Z");
        let ancient: Timestamp = "1960-01-02T03:04:05.5Z".parse().unwrap();
        assert_eq!(format(ancient), "1960-01-02T03:04:05Z");
    }
}
