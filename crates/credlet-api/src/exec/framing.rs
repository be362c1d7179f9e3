use serde::Deserialize;
use serde::de::IgnoredAny;

use super::decode::WireDocument;
use crate::wire::document::{self, DuplicateKeys};

/// Returns the length of the first document in the output of a plugin, if it is complete and has a `proxyConfig`.
///
/// A plugin that starts an exec proxy (KEP-2718) may keep running with its output open, so the client must not wait for
/// the end of the output. For any other plugin the end of the output is the end of the document.
///
/// An invalid document with a `proxyConfig` counts as well, so that the error is reported at once. YAML documents have
/// no end marker, so only JSON is detected.
///
/// ```
/// use credlet_api::exec::proxy_document_end;
///
/// let printed = br#"{"status": {"proxyConfig": {"url": "unix:///run/acme/s.sock"}}} listening"#;
/// assert_eq!(proxy_document_end(printed), Some(printed.len() - " listening".len()));
/// assert_eq!(proxy_document_end(&printed[..40]), None);
/// assert_eq!(proxy_document_end(br#"{"status": {"token": "a token"}}"#), None);
/// ```
pub fn proxy_document_end(stdout: &[u8]) -> Option<usize> {
    if stdout.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_slice(stdout).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let end = values.byte_offset();
    let has_proxy_config = match document::read::<WireDocument>(&stdout[..end], DuplicateKeys::LastWins) {
        Ok(document) => document.has_proxy_config(),
        Err(_) => serde_json::from_slice::<DocumentOutline>(&stdout[..end])
            .is_ok_and(|outline| outline.status.proxy_config.is_some()),
    };
    has_proxy_config.then_some(end)
}

/// The part of an invalid document that tells whether it has a `proxyConfig`.
#[derive(Deserialize)]
struct DocumentOutline {
    status: StatusOutline,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusOutline {
    proxy_config: Option<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_of_a_complete_document() {
        let document = r#" {"kind":"ExecCredential","status":{"proxyConfig":{"URL":"unix:///s","certificate-authority-data":null}}}"#;
        for length in 0..document.len() {
            assert_eq!(proxy_document_end(&document.as_bytes()[..length]), None, "{}", &document[..length]);
        }
        for rest in ["", "\n", "{", "}", "[1", "\u{7f}"] {
            assert_eq!(proxy_document_end(format!("{document}{rest}").as_bytes()), Some(document.len()), "{rest:?}");
        }
    }

    #[test]
    fn invalid_document_with_proxy_config_is_complete() {
        for document in [
            r#"{"status":{"expirationTimestamp":"tomorrow","proxyConfig":{"url":"unix:///s"}}}"#,
            r#"{"status":{"proxyConfig":{"url":7}}}"#,
            r#"{"status":{"proxyConfig":{"url":"unix:///s","certificate-authority-data":"!"}}}"#,
            r#"{"status":{"proxyConfig":"unix:///s"}}"#,
        ] {
            assert_eq!(
                proxy_document_end(format!("{document} listening").as_bytes()),
                Some(document.len()),
                "{document}"
            );
        }
        for other in [r#"{"status":{"token":7}}"#, r#"{"status":7}"#, r#"{"status":{"token":7,"proxyConfig":null}}"#] {
            assert_eq!(proxy_document_end(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn other_documents_end_with_the_output() {
        for other in ["status: {proxyConfig: {url: unix:///s}}", "[]", "1", r#"{"status":{"proxyConfig":null}}"#, "{]"]
        {
            assert_eq!(proxy_document_end(other.as_bytes()), None, "{other}");
        }
    }
}
