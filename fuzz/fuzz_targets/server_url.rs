//! The URL of an API server or proxy, parsed by Go's rules.

#![no_main]

use credlet_api::address::{GoUrl, ProxyAddr, ServerAddr};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some(url) = GoUrl::parse(text) {
        assert!(!url.scheme().contains(char::is_uppercase) && url.port().bytes().all(|digit| digit.is_ascii_digit()));
    }
    if let Ok(server) = ServerAddr::parse(text) {
        assert!(!server.host().is_empty() && !server.host().contains(char::is_control));
        if server.host().contains('%') {
            // The zone of an IPv6 address is shown as it is, and is escaped in a URL.
            return;
        }
        let again = format!("{}://{}", if server.is_https() { "https" } else { "http" }, server.target());
        let again = ServerAddr::parse(&again).expect("our own address");
        assert_eq!((again.host(), again.port()), (server.host(), server.port()));
    }
    match ProxyAddr::parse(text) {
        Ok(proxy) => assert!(!proxy.target().host().is_empty() && !proxy.name().contains(char::is_control)),
        // There may be a password in it. Text without a colon may be a part of the message itself.
        Err(error) => assert!(text.len() < 24 || !text.contains(':') || !error.to_string().contains(text)),
    }
});
