use serde::de::DeserializeOwned;

/// Parses JSON, with or without a byte order mark.
///
/// Messages of the parser quote the rejected input, which may be a secret, so errors are fixed texts.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, &'static str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|error| match bytes.trim_ascii_start().first() {
        None => super::EMPTY_BODY,
        Some(b'<') => super::HTML_BODY,
        _ if error.is_data() => super::MISSING_FIELD,
        _ => super::NOT_JSON,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::{EMPTY_BODY, HTML_BODY, MISSING_FIELD, NOT_JSON};

    #[test]
    fn errors_do_not_quote_the_input() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its shape counts")]
        struct Token {
            token: String,
        }
        for (body, fault) in [
            ("", EMPTY_BODY),
            (" \n", EMPTY_BODY),
            ("<html>hunter2", HTML_BODY),
            ("hunter2", NOT_JSON),
            (r#"{"token":"hunter2""#, NOT_JSON),
            (r#"{"tokens":"hunter2"}"#, MISSING_FIELD),
            (r#"{"token":["hunter2"]}"#, MISSING_FIELD),
        ] {
            assert_eq!(parse::<Token>(body.as_bytes()).unwrap_err(), fault, "{body}");
        }
        assert!(parse::<Token>(b"\xef\xbb\xbf{\"token\":\"x\"}").is_ok());
    }
}
