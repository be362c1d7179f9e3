use serde::de::DeserializeOwned;

/// Reads JSON. A parser's own words quote what it rejects, which may be a secret, so none of them is kept.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, &'static str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|error| match bytes.trim_ascii_start().first() {
        None => "that is empty",
        Some(b'<') => "that is a web page instead of JSON",
        _ if error.is_data() => "that lacks what belongs in it",
        _ => "that is not JSON",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_without_its_content() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its shape counts")]
        struct Token {
            token: String,
        }
        for (body, fault) in [
            ("", "that is empty"),
            (" \n", "that is empty"),
            ("<html>hunter2", "that is a web page instead of JSON"),
            ("hunter2", "that is not JSON"),
            (r#"{"token":"hunter2""#, "that is not JSON"),
            (r#"{"tokens":"hunter2"}"#, "that lacks what belongs in it"),
            (r#"{"token":["hunter2"]}"#, "that lacks what belongs in it"),
        ] {
            assert_eq!(read::<Token>(body.as_bytes()).unwrap_err(), fault, "{body}");
        }
        assert!(read::<Token>(b"\xef\xbb\xbf{\"token\":\"x\"}").is_ok());
    }
}
