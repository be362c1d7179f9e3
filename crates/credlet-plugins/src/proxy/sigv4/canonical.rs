//! A request in the one form that AWS's verifiers make of it, whatever form it travels in.

use credlet_proxy::sign::SignError;
use http::header::{self, HeaderName};
use http::request::Parts;

use crate::web::escaped;

/// The path as the verifier makes it: without dots and doubled slashes, and escaped once more. S3 alone takes it as it
/// is. The path on the wire is left alone.
pub(super) fn path(path: &str, service: &str) -> String {
    if service == "s3" {
        return if path.is_empty() { "/".to_owned() } else { path.to_owned() };
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let slash = !segments.is_empty() && path.ends_with('/');
    let escaped: Vec<_> = segments.iter().map(|segment| escaped(segment).to_string()).collect();
    format!("/{}{}", escaped.join("/"), if slash { "/" } else { "" })
}

/// Names and values as they are meant: the verifier escapes them in its own way.
pub(super) fn query(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescaped(name), unescaped(value))
        })
        .collect()
}

/// As forms are read: `+` is a blank. What is no escape stands for itself.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let escape = digits.filter(|_| *byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let escape = escape.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(match (escape, byte) {
            (Some(byte), _) => byte,
            (None, b'+') => b' ',
            (None, byte) => *byte,
        });
        at += if escape.is_some() { 3 } else { 1 };
    }
    // Names and values of API requests are text. Anything else could not be written down by a verifier either.
    String::from_utf8_lossy(&plain).into_owned()
}

/// Those that are signed, with lower-case names, several of a name as one.
///
/// # Errors
/// When one of them is no text: it could not be covered, and must not go uncovered.
pub(super) fn headers(head: &Parts) -> Result<Vec<(String, String)>, SignError> {
    let mut signed = Vec::new();
    for name in head.headers.keys().filter(|name| is_signed(name)) {
        let values: Result<Vec<_>, _> =
            head.headers.get_all(name).iter().map(|value| std::str::from_utf8(value.as_bytes())).collect();
        let values = values.map_err(|_| SignError::Misconfigured {
            message: format!("the header `{name}` is no text, so it cannot be signed"),
        })?;
        signed.push((name.as_str().to_owned(), values.join(",")));
    }
    if !head.headers.contains_key(header::HOST) {
        let host = head.uri.authority().map(|authority| authority.as_str().to_owned());
        let host = host.ok_or_else(|| SignError::Misconfigured { message: "the request names no host".to_owned() })?;
        signed.push((header::HOST.as_str().to_owned(), host));
    }
    Ok(signed)
}

/// Who is asked, for whom, and what the body is. Others may change on the way, or be added by the TLS terminator.
fn is_signed(name: &HeaderName) -> bool {
    name == header::HOST
        || name == header::CONTENT_TYPE
        || name.as_str().starts_with("impersonate-")
        || name.as_str().starts_with("x-amz-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As botocore 1.43 makes them.
    #[test]
    fn paths_are_the_verifiers() {
        for (given, wanted) in [
            ("", "/"),
            ("/", "/"),
            ("/api/v1/namespaces/a%20b/pods", "/api/v1/namespaces/a%2520b/pods"),
            ("/a//b/", "/a/b/"),
            ("/a/./b/../c", "/a/c"),
            ("/a/b/..", "/a"),
            ("/a/b/.", "/a/b"),
            ("/a/b/../", "/a/"),
            ("/apis/x:y,z@w=1", "/apis/x%3Ay%2Cz%40w%3D1"),
            ("/~a_b-c.d", "/~a_b-c.d"),
            ("/../..", "/"),
        ] {
            assert_eq!(path(given, "eks"), wanted, "{given}");
        }
        assert_eq!(path("/a//b%20c/../d", "s3"), "/a//b%20c/../d");
    }

    #[test]
    fn a_query_means_what_a_form_means() {
        let pairs = query("watch=1&labelSelector=a%3Db%2Cc+d&fieldSelector&&x=%zz&y=%C3%A9&z=a=b");
        let wanted = [
            ("watch", "1"),
            ("labelSelector", "a=b,c d"),
            ("fieldSelector", ""),
            ("x", "%zz"),
            ("y", "é"),
            ("z", "a=b"),
        ];
        assert_eq!(pairs, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(query(""), []);
    }
}
