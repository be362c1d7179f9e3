//! Which headers go on, and which are for one hop or one reader only.

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Version};

use super::rescue::{ERROR, Trouble};

/// Counted as HTTP/2 does, with a little for each.
pub(super) fn limit(headers: &HeaderMap, largest: u32) -> Result<(), Trouble> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
    if size <= largest as usize { Ok(()) } else { Err(Trouble::large_head(largest)) }
}

/// Refuses a request whose length can be read in two ways. Of several codings the HTTP library looks at the last one, and
/// nobody would undo the others. Lengths that differ it refuses in HTTP/1.1 itself, and makes equal ones into one.
pub(super) fn one_length(headers: &HeaderMap) -> Result<(), Trouble> {
    let codings: Vec<_> = items(headers, &TRANSFER_ENCODING).collect();
    let coded = headers.contains_key(TRANSFER_ENCODING);
    if coded && !matches!(codings.as_slice(), [one] if one.eq_ignore_ascii_case(b"chunked")) {
        return Err(Trouble::malformed("a body may be coded for its transfer as `chunked`, once, and in no other way"));
    }
    if headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(Trouble::malformed("a request says the length of its body once"));
    }
    Ok(())
}

/// Takes away what must not reach the API server:
/// - what is for this hop: `Connection` and whatever it names, `Keep-Alive`, `Proxy-…`, `Transfer-Encoding`, `Upgrade`,
///   `TE` but for trailers, which pass through us;
/// - `Expect`: whoever reads the body here has said `100 Continue` already;
/// - `Host`: the API server's own name takes its place;
/// - `Authorization`: what a client shows us is for us;
/// - `X-Remote-…`: with a front proxy's certificate, an API server believes them.
///
/// Nothing is added: an `X-Forwarded-For` would end up in the audit log as the origin of the request.
pub(super) fn clean_request(headers: &mut HeaderMap) {
    let trailers = lists(headers, &TE, "trailers");
    if headers.contains_key(TRANSFER_ENCODING) {
        // Two lengths are how a request hides in another.
        headers.remove(CONTENT_LENGTH);
    }
    remove_hop_and(headers, |name| {
        [EXPECT, HOST, AUTHORIZATION, TE].contains(name) || name.as_str().starts_with("x-remote-")
    });
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Takes away what was for the hop from the API server to us, and the mark of our own answers: nobody else sets it.
pub(super) fn clean_response(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        // The pieces count, and without their mark the HTTP library would hold the body to this length, or to none.
        headers.remove(CONTENT_LENGTH);
    }
    remove_hop_and(headers, |name| *name == ERROR);
}

/// Removes what is for one hop, and more. It looks at each name once and mostly finds nothing.
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

/// The protocol that a client asks to change to. Not to another version of HTTP: on such a connection requests would
/// pass by all that is done here.
pub(super) fn wanted_upgrade<B>(request: &Request<B>) -> Option<HeaderValue> {
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

/// What [`clean_request`] has removed, put back for the next hop.
pub(super) fn ask_for_upgrade(headers: &mut HeaderMap, protocol: &HeaderValue) {
    headers.insert(UPGRADE, protocol.clone());
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
}

fn lists(headers: &HeaderMap, name: &HeaderName, item: &str) -> bool {
    items(headers, name).any(|found| found.eq_ignore_ascii_case(item.as_bytes()))
}

/// The members of a list, over all headers of the name. Bytes, as the next one reads them: a member that is no text must
/// not hide its neighbours.
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
    fn what_is_for_one_hop_stays_there_and_the_rest_goes_on() {
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
    fn a_length_is_said_once_and_in_one_way() {
        for good in [&[][..], &[("content-length", "3")], &[("transfer-encoding", "Chunked"), ("content-length", "3")]]
        {
            assert!(one_length(&map(good)).is_ok(), "{good:?}");
        }
        for bad in [
            &[("content-length", "3"), ("content-length", "3")][..],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "identity")],
            &[("transfer-encoding", "")],
        ] {
            assert!(one_length(&map(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_list_with_something_that_is_no_text_is_read_all_the_same() {
        let strange = |bytes: &'static [u8]| HeaderValue::from_bytes(bytes).unwrap();
        let mut headers = map(&[("x-hop", "1"), ("x-end", "1")]);
        headers.insert(CONNECTION, strange(b"close, x-hop, \xff"));
        clean_request(&mut headers);
        assert_eq!(left(&headers), ["x-end"]);

        let mut request = Request::new(());
        *request.headers_mut() = map(&[("connection", "upgrade")]);
        for (protocol, is_one) in [(&b"\xff, h2c"[..], false), (b"HTTP/2.0, \xff", false), (b"\xff", true)] {
            request.headers_mut().insert(UPGRADE, strange(protocol));
            assert_eq!(wanted_upgrade(&request).is_some(), is_one, "{protocol:?}");
        }
        let mut coded = map(&[("transfer-encoding", "chunked")]);
        coded.append(TRANSFER_ENCODING, strange(b"\xff"));
        assert!(one_length(&coded).is_err());
    }

    #[test]
    fn an_answer_in_pieces_has_no_length_besides() {
        let mut headers = map(&[("transfer-encoding", "chunked"), ("content-length", "3"), ("date", "x")]);
        clean_response(&mut headers);
        assert_eq!(left(&headers), ["date"]);
        let mut headers = map(&[("content-length", "3")]);
        clean_response(&mut headers);
        assert_eq!(left(&headers), ["content-length"]);
    }

    #[test]
    fn an_answer_cannot_pass_for_one_of_ours() {
        let mut headers =
            map(&[("exec-proxy-error", "x"), ("connection", "close"), ("trailer", "x-sum"), ("date", "x")]);
        clean_response(&mut headers);
        assert_eq!(left(&headers), ["date", "trailer"]);
    }

    #[test]
    fn an_upgrade_is_one_by_both_headers_and_never_to_another_http() {
        let wanted = |connection: &'static str, upgrade: &'static str| {
            let mut request = Request::new(());
            *request.headers_mut() = map(&[("connection", connection), ("upgrade", upgrade)]);
            wanted_upgrade(&request)
        };
        assert_eq!(wanted("Upgrade", "SPDY/3.1").unwrap(), "SPDY/3.1");
        assert_eq!(wanted("keep-alive, upgrade", "websocket").unwrap(), "websocket");
        for (connection, upgrade) in [
            ("close", "websocket"),
            ("upgrade, http2-settings", "h2c"),
            ("upgrade", "websocket, H2C"),
            ("upgrade", "HTTP/2.0"),
        ] {
            assert_eq!(wanted(connection, upgrade), None, "{connection} {upgrade}");
        }
    }
}
