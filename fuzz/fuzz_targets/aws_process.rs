//! The output of a credential_process.

#![no_main]

use credlet_cloud::aws::fuzzing::{print_credentials, process_output};

libfuzzer_sys::fuzz_target!(|stdout: &[u8]| {
    let Ok(credentials) = process_output(stdout) else { return };
    let again = process_output(&print_credentials(&credentials)).expect("our own text");
    assert_eq!(print_credentials(&again), print_credentials(&credentials));
});
