//! `metav1.Status`: what an API server, or whoever stands in for one, says when it says no.

use std::borrow::Cow;

use serde::Serialize;

/// A failure, as clients of the Kubernetes API read it.
///
/// ```
/// use credlet_api::status::Status;
///
/// let status = Status::new(503, "ServiceUnavailable", "the card is not in the reader");
/// assert!(status.encode().contains(r#""code":503"#));
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Status<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: Nothing,
    status: &'static str,
    message: Cow<'a, str>,
    reason: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Serialize)]
struct Nothing {}

impl<'a> Status<'a> {
    /// The HTTP status code, one of the reasons that Kubernetes knows, and a sentence for people.
    pub fn new(code: u16, reason: &'static str, message: impl Into<Cow<'a, str>>) -> Self {
        let (kind, api_version, status) = ("Status", "v1", "Failure");
        Self { kind, api_version, metadata: Nothing {}, status, message: message.into(), reason, code }
    }

    /// As JSON.
    pub fn encode(&self) -> String {
        // Only strings, numbers and names that are known here: there is nothing in it that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_the_api_servers_own() {
        let text = Status::new(503, "ServiceUnavailable", "say \"hi\"").encode();
        let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"say \"hi\"","reason":"ServiceUnavailable","code":503}"#;
        assert_eq!(text, expected);
    }
}
