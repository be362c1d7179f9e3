//! Where a plugin says that its proxy listens.

#![no_main]

use std::os::unix::ffi::OsStrExt as _;

use credlet_proxy::endpoint::{Endpoint, LONGEST_PATH};

libfuzzer_sys::fuzz_target!(|url: &str| {
    let Ok(endpoint) = Endpoint::parse(url) else { return };
    match &endpoint {
        Endpoint::Unix(path) => {
            let bytes = path.as_os_str().as_bytes();
            assert!(path.is_absolute() && bytes.len() <= LONGEST_PATH && !bytes.contains(&0));
        }
        Endpoint::Loopback(address) => assert!(address.ip().is_loopback() && address.port() != 0),
    }
    // What was understood can be written, and is understood again as the same.
    assert_eq!(Endpoint::parse(&endpoint.to_string()), Ok(endpoint));
});
