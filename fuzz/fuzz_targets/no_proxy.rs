//! A host, a port and a value of NO_PROXY, one per line.

#![no_main]

use credlet_http::fuzzing::is_exempt;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let mut lines = text.splitn(3, '\n');
    let (Some(host), Some(port), Some(list)) = (lines.next(), lines.next(), lines.next()) else { return };
    let port = port.parse().unwrap_or(443);
    let exempt = is_exempt(list, host, port);
    // An entry more exempts no less.
    assert!(!exempt || is_exempt(&format!("{list},other.example"), host, port));
    assert!(is_exempt("*", host, port) && is_exempt("", "localhost", port));
});
