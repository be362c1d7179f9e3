//! The file of a stored login.

#![no_main]

use credlet_oidc::fuzzing::record;
use jiff::Timestamp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let now = Timestamp::from_second(2_000_000_000).expect("a time");
    assert_ne!(record(bytes, now), Some(false));
});
