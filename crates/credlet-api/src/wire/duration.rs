//! Durations as Go's `time.Duration` writes them.

use std::fmt::Write;
use std::time::Duration;

/// `1h30m0s`, `5m0s`, `1.5s`, `10ms`, `0s`.
pub(crate) fn format(duration: Duration) -> String {
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
}
