//! An RFC 3339 timestamp, parsed by Go's rules.

#![no_main]

use credlet_api::fuzzing::{format_timestamp, parse_timestamp};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some(time) = parse_timestamp(text) else { return };
    // Fractions of a second are not written.
    let written = format_timestamp(time);
    let again = parse_timestamp(&written).expect("our own text");
    assert_eq!(format_timestamp(again), written);
    assert!(again <= time && time.duration_since(again).as_secs() == 0);
});
