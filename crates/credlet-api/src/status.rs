//! `metav1.Status`, the error response of an API server or a proxy in front of it.

use std::borrow::Cow;

use serde::Serialize;

/// A `metav1.Status` that reports a failure.
///
/// ```
/// use credlet_api::status::ApiStatus;
///
/// let status = ApiStatus::new(503, "ServiceUnavailable", "the card is not in the reader");
/// assert!(status.encode().contains(r#""code":503"#));
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct ApiStatus<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: EmptyMetadata,
    status: &'static str,
    message: Cow<'a, str>,
    reason: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Serialize)]
struct EmptyMetadata {}

impl<'a> ApiStatus<'a> {
    /// Creates a status with an HTTP status code, a `metav1.StatusReason` and a message for the user.
    pub fn new(code: u16, reason: &'static str, message: impl Into<Cow<'a, str>>) -> Self {
        let (kind, api_version, status) = ("Status", "v1", "Failure");
        Self { kind, api_version, metadata: EmptyMetadata {}, status, message: message.into(), reason, code }
    }

    /// Returns the JSON text.
    pub fn encode(&self) -> String {
        // Strings and numbers only: serialisation cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_the_api_server() {
        let text = ApiStatus::new(503, "ServiceUnavailable", "say \"hi\"").encode();
        let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"say \"hi\"","reason":"ServiceUnavailable","code":503}"#;
        assert_eq!(text, expected);
    }
}
