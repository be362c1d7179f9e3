//! Checks and rewrites headers between the two hops.

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};

use super::error_response::{ERROR_HEADER, ProxyError};

/// Methods of the Kubernetes API including the `proxy` subresource, as the value of an `Allow` header.
pub(super) const ALLOWED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Rejects all other methods before anything is signed. A server that implements `TRACE` (or IIS's `TRACK`) echoes the
/// request with its credential. Some servers ignore the case of methods, so only the exact spelling passes.
pub(super) fn check_method(method: &Method) -> Result<(), ProxyError> {
    match method {
        &Method::CONNECT => Err(ProxyError::connect_not_supported()),
        method if ALLOWED_METHODS.split(", ").any(|known| known == method.as_str()) => Ok(()),
        _ => Err(ProxyError::unknown_method()),
    }
}

/// The size is calculated as in HTTP/2, with 32 bytes per header (RFC 9113, section 6.5.2).
pub(super) fn check_size(headers: &HeaderMap, largest: u32) -> Result<(), ProxyError> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
    if size <= largest as usize { Ok(()) } else { Err(ProxyError::head_too_large(largest)) }
}

/// Rejects a request with an ambiguous body length, which would enable request smuggling. hyper evaluates only the last
/// transfer coding; it rejects differing content lengths in HTTP/1.1 and merges equal ones.
pub(super) fn check_body_length(headers: &HeaderMap) -> Result<(), ProxyError> {
    let codings: Vec<_> = items(headers, &TRANSFER_ENCODING).collect();
    let coded = headers.contains_key(TRANSFER_ENCODING);
    if coded && !matches!(codings.as_slice(), [one] if one.eq_ignore_ascii_case(b"chunked")) {
        return Err(ProxyError::malformed("unsupported transfer-encoding: must be `chunked`, once"));
    }
    if headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(ProxyError::malformed("duplicate content-length"));
    }
    Ok(())
}

/// Removes headers that must not reach the API server:
/// - hop-by-hop headers: `Connection` and the headers that it lists, `Keep-Alive`, `Proxy-…`, `Transfer-Encoding`,
///   `Upgrade`, and `TE` except for trailers, which are forwarded;
/// - `Expect`: hyper has already sent `100 Continue`;
/// - `Host`: replaced by that of the API server;
/// - `Authorization`: it was meant for this proxy;
/// - `X-Remote-…`: with a front-proxy certificate the API server would trust them;
/// - headers that make a gateway use another method, path, host or user, see [`overrides_request`]. Policies and API
///   servers ignore them.
///
/// No headers are added: the audit log would show an `X-Forwarded-For` as the source of the request.
pub(super) fn clean_request(headers: &mut HeaderMap) {
    let trailers = lists(headers, &TE, "trailers");
    if headers.contains_key(TRANSFER_ENCODING) {
        // Two lengths would enable request smuggling.
        headers.remove(CONTENT_LENGTH);
    }
    remove_hop_and(headers, |name| {
        [EXPECT, HOST, AUTHORIZATION, TE].contains(name)
            || name.as_str().starts_with("x-remote-")
            || overrides_request(name.as_str())
    });
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Whether some gateways or frameworks use this header to override the request's method (`X-HTTP-Method-Override`),
/// path (`X-Original-URL`, `X-Rewrite-URL`, `X-Forwarded-Prefix`), host or user (`X-Forwarded-Host`,
/// `X-Forwarded-User`). Kubernetes uses none of them. Of `X-Forwarded-…` only `For`, `Proto` and `Port` are harmless.
fn overrides_request(name: &str) -> bool {
    const PREFIXES: [&str; 10] = [
        "x-http-method",
        "x-httpmethod",
        "x-method",
        "http-method",
        "method-override",
        "x-original-",
        "x-rewrite-",
        "x-replaced-path",
        "x-envoy-original-",
        "x-http-host",
    ];
    // CGI maps `-` and `_` to the same variable name.
    let rest = |prefix: &str| {
        let same = |(found, expected)| found == expected || (found == b'_' && expected == b'-');
        let begins = name.len() >= prefix.len() && name.bytes().zip(prefix.bytes()).all(same);
        begins.then(|| &name[prefix.len()..])
    };
    PREFIXES.iter().any(|prefix| rest(prefix).is_some())
        || ["x-host", "forwarded"].iter().any(|whole| rest(whole).is_some_and(str::is_empty))
        || rest("x-forwarded-").is_some_and(|of| !["for", "proto", "port"].contains(&of))
}

/// Removes hop-by-hop headers of the response, and the header that marks responses of this proxy.
pub(super) fn clean_response(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        // `Transfer-Encoding` takes precedence. Once it is removed, hyper would apply the content length.
        headers.remove(CONTENT_LENGTH);
    }
    remove_hop_and(headers, |name| *name == ERROR_HEADER);
}

/// Removes hop-by-hop headers and those that `more` selects.
fn remove_hop_and(headers: &mut HeaderMap, more: impl Fn(&HeaderName) -> bool) {
    let named: Vec<&[u8]> = items(headers, &CONNECTION).collect();
    let is_for_hop = |name: &HeaderName| {
        [CONNECTION, TRANSFER_ENCODING, UPGRADE].contains(name)
            || name.as_str() == "keep-alive"
            || name.as_str().starts_with("proxy-")
            || named.iter().any(|named| named.eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    let found: Vec<HeaderName> = headers.keys().filter(|name| is_for_hop(name) || more(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// Returns the protocol of an upgrade request. Upgrades to HTTP are ignored, because requests on such a connection
/// would bypass the pipeline.
pub(super) fn requested_upgrade<B>(request: &Request<B>) -> Option<HeaderValue> {
    let headers = request.headers();
    if request.version() != Version::HTTP_11 || !lists(headers, &CONNECTION, "upgrade") {
        return None;
    }
    let is_http = |protocol: &[u8]| {
        let protocol = protocol.to_ascii_lowercase();
        protocol == b"h2c" || protocol == b"h2" || protocol.starts_with(b"http")
    };
    if items(headers, &UPGRADE).any(is_http) {
        return None;
    }
    headers.get(UPGRADE).cloned()
}

/// Restores the upgrade headers that [`clean_request`] removed, for the next hop.
pub(super) fn set_upgrade(headers: &mut HeaderMap, protocol: &HeaderValue) {
    headers.insert(UPGRADE, protocol.clone());
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
}

fn lists(headers: &HeaderMap, name: &HeaderName, item: &str) -> bool {
    items(headers, name).any(|found| found.eq_ignore_ascii_case(item.as_bytes()))
}

/// Members of a list in all headers of this name. They are bytes, so that a member that is not UTF-8 does not hide the
/// others.
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let values = headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn left(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn removes_hop_by_hop_headers() {
        let mut headers = map(&[
            ("accept", "application/json"),
            ("connection", "Keep-Alive, X-Hop"),
            ("connection", "x-other"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("keep-alive", "5"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "close"),
            ("transfer-encoding", "chunked"),
            ("content-length", "3"),
            ("te", "gzip, Trailers"),
            ("trailer", "x-sum"),
            ("expect", "100-continue"),
            ("host", "x"),
            ("authorization", "Bearer x"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("impersonate-user", "ada"),
            ("upgrade", "websocket"),
        ]);
        clean_request(&mut headers);
        assert_eq!(left(&headers), ["accept", "impersonate-user", "te", "trailer"]);
        assert_eq!(headers[TE], "trailers");
    }

    #[test]
    fn overriding_headers_are_removed() {
        let mut headers = map(&[
            ("x-http-method-override", "DELETE"),
            ("x-http-method", "DELETE"),
            ("x-method-override", "DELETE"),
            ("x_http_method_override", "DELETE"),
            ("x-original-url", "/a"),
            ("x-rewrite-url", "/a"),
            ("x-original-method", "DELETE"),
            ("x-forwarded-uri", "/a"),
            ("x-forwarded-prefix", "/a"),
            ("x_forwarded_path", "/a"),
            ("x-forwarded-host", "a"),
            ("x-forwarded-user", "root"),
            ("forwarded", "host=a"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("access-control-request-method", "PUT"),
            ("x-hosted-by", "1"),
        ]);
        clean_request(&mut headers);
        let expected = ["access-control-request-method", "x-forwarded-for", "x-forwarded-proto", "x-hosted-by"];
        assert_eq!(left(&headers), expected);
    }

    #[test]
    fn rejects_other_methods() {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            assert!(check_method(&method.parse().unwrap()).is_ok(), "{method}");
        }
        for method in
            ["TRACE", "trace", "Trace", "TRACK", "track", "CONNECT", "DEBUG", "get", "GET,", "PROPFIND", "MOVE"]
        {
            if let Ok(method) = method.parse::<Method>() {
                assert_eq!(check_method(&method).unwrap_err().code(), http::StatusCode::METHOD_NOT_ALLOWED, "{method}");
            }
        }
    }

    #[test]
    fn rejects_ambiguous_body_length() {
        for good in [&[][..], &[("content-length", "3")], &[("transfer-encoding", "Chunked"), ("content-length", "3")]]
        {
            assert!(check_body_length(&map(good)).is_ok(), "{good:?}");
        }
        for bad in [
            &[("content-length", "3"), ("content-length", "3")][..],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "identity")],
            &[("transfer-encoding", "")],
        ] {
            assert!(check_body_length(&map(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn list_with_invalid_utf8_is_parsed() {
        let strange = |bytes: &'static [u8]| HeaderValue::from_bytes(bytes).unwrap();
        let mut headers = map(&[("x-hop", "1"), ("x-end", "1")]);
        headers.insert(CONNECTION, strange(b"close, x-hop, \xff"));
        clean_request(&mut headers);
        assert_eq!(left(&headers), ["x-end"]);

        let mut request = Request::new(());
        *request.headers_mut() = map(&[("connection", "upgrade")]);
        for (protocol, is_one) in [(&b"\xff, h2c"[..], false), (b"HTTP/2.0, \xff", false), (b"\xff", true)] {
            request.headers_mut().insert(UPGRADE, strange(protocol));
            assert_eq!(requested_upgrade(&request).is_some(), is_one, "{protocol:?}");
        }
        let mut coded = map(&[("transfer-encoding", "chunked")]);
        coded.append(TRANSFER_ENCODING, strange(b"\xff"));
        assert!(check_body_length(&coded).is_err());
    }

    #[test]
    fn chunked_response_has_no_content_length() {
        let mut headers = map(&[("transfer-encoding", "chunked"), ("content-length", "3"), ("date", "x")]);
        clean_response(&mut headers);
        assert_eq!(left(&headers), ["date"]);
        let mut headers = map(&[("content-length", "3")]);
        clean_response(&mut headers);
        assert_eq!(left(&headers), ["content-length"]);
    }

    #[test]
    fn upstream_cannot_set_error_header() {
        let mut headers =
            map(&[("exec-proxy-error", "x"), ("connection", "close"), ("trailer", "x-sum"), ("date", "x")]);
        clean_response(&mut headers);
        assert_eq!(left(&headers), ["date", "trailer"]);
    }

    #[test]
    fn upgrade_to_http_is_ignored() {
        let upgrade_of = |connection: &'static str, upgrade: &'static str| {
            let mut request = Request::new(());
            *request.headers_mut() = map(&[("connection", connection), ("upgrade", upgrade)]);
            requested_upgrade(&request)
        };
        assert_eq!(upgrade_of("Upgrade", "SPDY/3.1").unwrap(), "SPDY/3.1");
        assert_eq!(upgrade_of("keep-alive, upgrade", "websocket").unwrap(), "websocket");
        for (connection, upgrade) in [
            ("close", "websocket"),
            ("upgrade, http2-settings", "h2c"),
            ("upgrade", "websocket, H2C"),
            ("upgrade", "HTTP/2.0"),
        ] {
            assert_eq!(upgrade_of(connection, upgrade), None, "{connection} {upgrade}");
        }
    }
}
