//! Entry points of `fuzz/fuzz_targets` into private parsers. Not part of the public API.

use http::HeaderMap;
use jiff::Timestamp;

use super::headers;

/// Parses the output of a header command into headers and their expiry.
///
/// # Errors
/// The error message.
pub fn parse_headers(text: &str) -> Result<(HeaderMap, Option<Timestamp>), String> {
    headers::parse(text).map_err(|error| error.to_string())
}
