//! The URL of a proxy in plugin output.

#![no_main]

use std::os::unix::ffi::OsStrExt as _;

use credlet_proxy::endpoint::{MAX_SOCKET_PATH, ProxyEndpoint};

libfuzzer_sys::fuzz_target!(|url: &str| {
    let Ok(endpoint) = ProxyEndpoint::parse(url) else { return };
    match &endpoint {
        ProxyEndpoint::Unix(path) => {
            let bytes = path.as_os_str().as_bytes();
            assert!(path.is_absolute() && bytes.len() <= MAX_SOCKET_PATH && !bytes.contains(&0));
        }
        ProxyEndpoint::Loopback(address) => assert!(address.ip().is_loopback() && address.port() != 0),
    }
    // Formatting and parsing round-trips.
    assert_eq!(ProxyEndpoint::parse(&endpoint.to_string()), Ok(endpoint));
});
