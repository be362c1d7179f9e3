use zeroize::Zeroizing;

/// Percent-encoding by RFC 3986: everything but letters, digits and `-_.~`. Fit for a query, a path segment, a form and a
/// signature.
pub fn escaped(text: &str) -> Zeroizing<String> {
    // All the room at once: a string that grows leaves copies behind.
    let mut into = Zeroizing::new(String::with_capacity(text.len() * 3));
    escape(text, &mut into);
    into
}

/// A form's or query's fields: `a=1&b=2`.
pub fn form(fields: &[(&str, &str)]) -> Zeroizing<String> {
    let room = fields.iter().map(|(name, value)| 3 * (name.len() + value.len()) + 2).sum();
    let mut into = Zeroizing::new(String::with_capacity(room));
    for (name, value) in fields {
        if !into.is_empty() {
            into.push('&');
        }
        escape(name, &mut into);
        into.push('=');
        escape(value, &mut into);
    }
    into
}

fn escape(text: &str, into: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(char::from(HEX[usize::from(byte >> 4)]));
            into.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_by_rfc_3986() {
        assert_eq!(&**escaped("a b+c/ü~:"), "a%20b%2Bc%2F%C3%BC~%3A");
        assert_eq!(&**form(&[("a", "1 2"), ("é", "")]), "a=1%202&%C3%A9=");
        assert!(form(&[]).is_empty());
    }
}
