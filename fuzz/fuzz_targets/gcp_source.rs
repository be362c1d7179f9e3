//! A Google credentials file.

#![no_main]

use credlet_cloud::gcp::fuzzing::parse_source;

libfuzzer_sys::fuzz_target!(|text: &str| match parse_source(text) {
    Ok(source) => drop(format!("{source:?}")),
    Err(reason) => assert!(!reason.contains(char::is_control), "{reason:?}"),
});
