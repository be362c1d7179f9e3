//! The canonical form of a request, which AWS computes again to verify the signature.

use crate::sign::SignError;
use http::header::{self, HeaderName};
use http::request::Parts;

use credlet_http::fetch::percent_encode;
use percent_encoding::percent_decode_str;

/// The canonical path: without dot segments and empty segments, and percent-encoded once more. S3 uses the path unchanged.
/// The path of the request itself does not change.
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
    let escaped: Vec<_> = segments.iter().map(|segment| percent_encode(segment).to_string()).collect();
    format!("/{}{}", escaped.join("/"), if slash { "/" } else { "" })
}

/// Returns the decoded names and values of a query. The signature encodes them again.
pub(super) fn query(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_form(name), decode_form(value))
        })
        .collect()
}

/// Decodes form data: `+` is a space, and an invalid escape is kept unchanged.
fn decode_form(text: &str) -> String {
    // Names and values of API requests are UTF-8.
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// The signed headers with lower-case names; repeated headers are joined by commas. Fails if a value is not
/// UTF-8: it cannot be signed, and must not be sent unsigned.
pub(super) fn headers(head: &Parts) -> Result<Vec<(String, String)>, SignError> {
    let mut signed = Vec::new();
    for name in head.headers.keys().filter(|name| is_signed(name)) {
        let values: Result<Vec<_>, _> =
            head.headers.get_all(name).iter().map(|value| std::str::from_utf8(value.as_bytes())).collect();
        let values = values
            .map_err(|_| SignError::Misconfigured { message: format!("cannot sign header `{name}`: not UTF-8") })?;
        signed.push((name.as_str().to_owned(), values.join(",")));
    }
    if !head.headers.contains_key(header::HOST) {
        let host = head.uri.authority().map(|authority| authority.as_str().to_owned());
        let host = host
            .ok_or_else(|| SignError::Misconfigured { message: "cannot sign the request: missing host".to_owned() })?;
        signed.push((header::HOST.as_str().to_owned(), host));
    }
    Ok(signed)
}

/// Whether a header is signed: host, content type, impersonation and `x-amz-*`. A TLS terminator may change or add others.
fn is_signed(name: &HeaderName) -> bool {
    name == header::HOST
        || name == header::CONTENT_TYPE
        || name.as_str().starts_with("impersonate-")
        || name.as_str().starts_with("x-amz-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from botocore 1.43.
    #[test]
    fn canonical_paths_match_botocore() {
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
    fn decodes_query_as_form() {
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
