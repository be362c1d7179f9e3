//! Bytes sent to a proxy's control socket.

#![no_main]

use std::sync::OnceLock;

use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::fuzzing::ControlSocket;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static SOCKET: OnceLock<ControlSocket> = OnceLock::new();
    let socket = SOCKET.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("credlet-fuzz-{}", std::process::id()));
        ControlSocket::open(ProxyDir::open(path).expect("a directory")).expect("a proxy")
    });
    // The body of a lease is a path, which would be opened.
    let body = bytes.windows(4).position(|end| end == b"\r\n\r\n").map_or(&[][..], |at| &bytes[at..]);
    if body.contains(&b'/') {
        return;
    }
    let response = socket.respond(bytes);
    assert!(response.is_empty() || response.starts_with(b"HTTP/1."));
    // One response per request.
    let head = response.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(response.len());
    assert!(!response[..head].iter().any(|byte| byte.is_ascii_control() && !b"\r\n\t".contains(byte)));
});
