//! Entry points for `fuzz/fuzz_targets` to private parsers. Not part of the public API.

use super::GoogleCredentialSource;
use super::source::ParseProblem;

/// Parses a Google credentials file.
///
/// # Errors
/// What is wrong with the file, as shown to the user.
pub fn parse_source(text: &str) -> Result<GoogleCredentialSource, String> {
    GoogleCredentialSource::parse(text).map_err(|problem| match problem {
        ParseProblem::Content(reason) => reason.to_owned(),
        ParseProblem::Kind(kind) => super::source::unsupported(&kind, std::path::Path::new("/f")).to_string(),
    })
}
