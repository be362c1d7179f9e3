//! Responses of an HTTP proxy to CONNECT and of a SOCKS 5 proxy; the first byte selects.

#![no_main]

use std::sync::OnceLock;

use credlet_http::fuzzing::open_tunnel;
use credlet_http::{HostPort, ProxyAddr};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Builder::new_current_thread().build().expect("a runtime"));
    let Some((choice, responses)) = bytes.split_first() else { return };
    let url = match choice % 4 {
        0 => "http://proxy.example",
        1 => "http://user:hunter2hunter2@proxy.example",
        2 => "socks5://proxy.example",
        _ => "socks5://user:hunter2hunter2@proxy.example",
    };
    let proxy = ProxyAddr::parse(url).expect("our own address");
    let target = HostPort::new("api.example", 6443);
    match runtime.block_on(open_tunnel(&proxy, &target, responses.to_vec())) {
        Ok(()) if choice % 4 < 2 => {
            assert!(responses.starts_with(b"HTTP/1.") && responses.ends_with(b"\r\n\r\n"));
        }
        Ok(()) => assert_eq!(responses.first(), Some(&5)),
        Err(reason) => assert!(!reason.contains("hunter2") && !reason.contains(char::is_control)),
    }
});
