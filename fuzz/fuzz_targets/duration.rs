//! A duration in Go syntax.

#![no_main]

use std::time::Duration;

use credlet_api::duration;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(parsed) = duration::parse(text) else { return };
    let Ok(positive) = Duration::try_from(parsed) else { return };
    let written = duration::format(positive);
    assert_eq!(duration::parse(&written), Ok(parsed), "{written}");
});
