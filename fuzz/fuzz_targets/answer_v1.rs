//! Plugin output in v1.

#![no_main]

#[path = "answer.rs"]
mod answer;

libfuzzer_sys::fuzz_target!(|stdout: &[u8]| answer::check(stdout, credlet_api::exec::ApiVersion::V1));
