//! Entry points for `fuzz/fuzz_targets` to private parsers. Not part of the public API.

use credlet_api::Secret;
use jiff::Timestamp;

use super::{AwsCredentials, process, sso, sts, time, xml};

/// Parses the output of a `credential_process`.
///
/// # Errors
/// What is wrong with the output.
pub fn process_output(stdout: &[u8]) -> Result<AwsCredentials, &'static str> {
    process::ProcessOutput::decode(stdout)
}

/// Formats credentials like a `credential_process`.
pub fn print_credentials(credentials: &AwsCredentials) -> Vec<u8> {
    process::ProcessOutput::encode(credentials).to_vec()
}

/// Parses a file of `~/.aws/sso/cache` into its token and expiry.
pub fn sso_cache(text: &str) -> Option<(Secret, Option<Timestamp>)> {
    let token: sso::SsoToken = serde_json::from_str(text).ok()?;
    Some((token.access_token.clone(), token.expires()))
}

/// Parses a time of AWS tools.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    time::parse(text)
}

/// Parses the value of a `Date` header.
pub fn parse_http_date(text: &str) -> Option<Timestamp> {
    sts::parse_http_date(text)
}

/// Returns the text of the first XML element of this name.
pub fn xml_text(xml: &str, element: &str) -> Option<Secret> {
    xml::text(xml, element)
}
