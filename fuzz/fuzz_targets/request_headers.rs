//! Request headers through the proxy: no hop-by-hop header and no header that the API server trusts is forwarded.

#![no_main]

use credlet_proxy::server::fuzzing::{clean_request, clean_response, has_one_length, requested_upgrade};
use http::{HeaderName, HeaderValue, Request};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut request = Request::new(());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (HeaderName::from_bytes(&line[..at]), HeaderValue::from_bytes(line[at + 1..].trim_ascii()));
        if let (Ok(name), Ok(value)) = (name, value) {
            request.headers_mut().append(name, value);
        }
    }
    let listed: Vec<_> =
        request.headers().get_all("connection").iter().filter_map(|value| value.to_str().ok()).collect();
    let listed: Vec<_> = listed.join(",").split(',').map(|item| item.trim().to_ascii_lowercase()).collect();
    let upgrade = requested_upgrade(&request);
    assert!(upgrade.is_none_or(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(b"h2c")));
    if has_one_length(request.headers()) {
        assert!(request.headers().get_all("content-length").iter().count() <= 1);
        assert!(request.headers().get_all("transfer-encoding").iter().count() <= 1);
    }

    let mut headers = request.headers().clone();
    clean_request(&mut headers);
    let removed = ["connection", "keep-alive", "transfer-encoding", "upgrade", "expect", "host", "authorization"];
    for name in headers.keys().map(HeaderName::as_str) {
        assert!(!removed.contains(&name) && !name.starts_with("proxy-") && !name.starts_with("x-remote-"), "{name}");
        assert!(name == "te" || !listed.iter().any(|item| item == name), "{name}");
    }
    assert!(headers.get("te").is_none_or(|value| value == "trailers"));
    let once = headers.clone();
    clean_request(&mut headers);
    assert_eq!(headers, once);
    let mut headers = request.headers().clone();
    clean_response(&mut headers);
    assert!(!headers.contains_key("connection") && !headers.contains_key("exec-proxy-error"));
});
