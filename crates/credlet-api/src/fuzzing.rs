//! Private parsers for `fuzz/fuzz_targets`. Not part of the public API.

use jiff::Timestamp;

use crate::wire::timestamp;

/// Parses an RFC 3339 time as Go does.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    timestamp::parse(text)
}

/// Formats a time as Kubernetes does.
pub fn format_timestamp(time: Timestamp) -> String {
    timestamp::format(time)
}
