use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

/// All bytes except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes everything except the unreserved characters of RFC 3986 (letters, digits and `-_.~`). The result is
/// valid in a query, a path segment, a form and a canonical request of AWS SigV4.
pub fn percent_encode(text: &str) -> Zeroizing<String> {
    // Full capacity from the start: reallocation would leave copies of a secret in memory.
    let mut encoded = Zeroizing::new(String::with_capacity(text.len() * 3));
    encoded.extend(utf8_percent_encode(text, RESERVED));
    encoded
}

/// Encodes like Go's `url.QueryEscape`: as [`percent_encode`], but a space becomes `+`.
pub fn query_escape(text: &str) -> Zeroizing<String> {
    let mut encoded = Zeroizing::new(String::with_capacity(text.len() * 3));
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            encoded.push('+');
        }
        encoded.extend(utf8_percent_encode(word, RESERVED));
    }
    encoded
}

/// Encodes the fields of a form or query: `a=1&b=2`. A space becomes `%20`.
pub fn encode_form(fields: &[(&str, &str)]) -> Zeroizing<String> {
    encode_form_with(fields, percent_encode)
}

/// Like [`encode_form`], with [`percent_encode`] or [`query_escape`] for names and values.
pub fn encode_form_with(fields: &[(&str, &str)], encode: fn(&str) -> Zeroizing<String>) -> Zeroizing<String> {
    let capacity = fields.iter().map(|(name, value)| 3 * (name.len() + value.len()) + 2).sum();
    let mut encoded = Zeroizing::new(String::with_capacity(capacity));
    for (name, value) in fields {
        if !encoded.is_empty() {
            encoded.push('&');
        }
        encoded.push_str(&encode(name));
        encoded.push('=');
        encoded.push_str(&encode(value));
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_all_but_unreserved_characters() {
        assert_eq!(&**percent_encode("a b+c/ü~:"), "a%20b%2Bc%2F%C3%BC~%3A");
        for byte in 0..128_u8 {
            let text = char::from(byte).to_string();
            let unreserved = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
            let expected = if unreserved { text.clone() } else { format!("%{byte:02X}") };
            assert_eq!(**percent_encode(&text), expected);
        }
    }

    #[test]
    fn query_escape_encodes_space_as_plus() {
        assert_eq!(&**query_escape("a b+c/ü~:"), "a+b%2Bc%2F%C3%BC~%3A");
        assert_eq!(&**query_escape("  "), "++");
    }

    #[test]
    fn encodes_form_fields() {
        assert_eq!(&**encode_form(&[("a", "1 2"), ("é", "")]), "a=1%202&%C3%A9=");
        assert_eq!(&**encode_form_with(&[("a", "1 2"), ("b", "")], query_escape), "a=1+2&b=");
        assert!(encode_form(&[]).is_empty());
    }
}
