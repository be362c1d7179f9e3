//! RFC 3339 as Go's `time.Parse(time.RFC3339, …)` takes it, which is not quite RFC 3339.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};

/// Parses what Go parses, and nothing else: upper-case `T` and `Z`, no blank, a fraction after a point or a comma,
/// an hour of one digit, offsets up to and including 24:60.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let mut rest = Rest(text.as_bytes());
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
    let date = Date::new(i16::try_from(year).ok()?, small(month)?, small(day)?).ok()?;
    let time = Time::new(small(hour)?, small(minute)?, small(second)?, nanosecond).ok()?;
    // The last two days of the year 9999 are beyond what a `Timestamp` holds, and are how some people write "never".
    let utc = jiff::tz::Offset::UTC.to_timestamp(DateTime::from_parts(date, time)).unwrap_or(Timestamp::MAX);
    let time = utc.saturating_sub(jiff::SignedDuration::from_secs(offset)).ok()?;
    // An offset can lead out of the years that RFC 3339 can write, and no credential was good back then.
    Some(time.max(first()))
}

/// Seconds in UTC, as Kubernetes writes a time. The fraction is dropped, so the text is never later than the time.
pub(crate) fn format(time: Timestamp) -> String {
    // Rounds towards the past, before 1970 too.
    let whole = time.as_nanosecond().div_euclid(1_000_000_000);
    let whole = i64::try_from(whole).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or(time);
    whole.to_string()
}

/// The first moment of the year 0.
fn first() -> Timestamp {
    Timestamp::from_second(-62_167_219_200).unwrap_or(Timestamp::MIN)
}

fn small(number: u32) -> Option<i8> {
    i8::try_from(number).ok()
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
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

    /// Nanoseconds; further digits are dropped.
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

    /// Seconds east of Greenwich.
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
        // Go lets 24 hours and 60 minutes pass, because some people write them.
        (hours <= 24 && minutes <= 60).then_some(sign * i64::from(hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_parses() {
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
    fn what_go_refuses() {
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
    fn a_written_time_is_never_later_than_the_time() {
        let time: Timestamp = "2030-01-02T03:04:05.999Z".parse().unwrap();
        assert_eq!(format(time), "2030-01-02T03:04:05Z");
        let ancient: Timestamp = "1960-01-02T03:04:05.5Z".parse().unwrap();
        assert_eq!(format(ancient), "1960-01-02T03:04:05Z");
    }
}
