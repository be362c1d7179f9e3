//! A cache entry without its checksum.

#![no_main]

use credlet_exec::cache::fuzzing::entry;

libfuzzer_sys::fuzz_target!(|rest: &[u8]| assert_ne!(entry(rest, "0123abcd"), Some(false)));
