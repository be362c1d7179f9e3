//! The head of a CONNECT request, and server names in it.

#![no_main]

use credlet_proxy::server::fuzzing::ServerNames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let names = ServerNames::new("https://api.example:6443", Some(37443)).expect("our own names");
    match names.connect_head(bytes) {
        Ok(Some(length)) => {
            let head = String::from_utf8_lossy(&bytes[..length]).to_ascii_lowercase();
            let target = head.trim_start().strip_prefix("connect ").expect("a tunnel");
            let known = ["api.example:", "127.0.0.1:", "localhost:", "[::1]:", "::1"];
            assert!(known.iter().any(|name| target.starts_with(name)), "{target}");
        }
        Ok(None) => {}
        Err(response) => {
            let response = String::from_utf8(response).expect("text");
            let (head, body) = response.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 4") && !body.contains(|c: char| c.is_control() && c != '\n'));
            assert!(head.lines().count() <= 6, "{head}");
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if names.allows(text) {
        let text = text.to_ascii_lowercase();
        assert!(!text.contains('@') && (text.contains("6443") || text.contains("37443")), "{text}");
    }
    if let Some(uri) = text.parse().ok().and_then(|uri| names.addressed(&uri)) {
        assert_eq!(uri.authority().map(|authority| authority.as_str()), Some("api.example:6443"));
    }
});
