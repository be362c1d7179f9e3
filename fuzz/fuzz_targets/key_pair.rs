//! A certificate and a private key in PEM, separated by a NUL.

#![no_main]

use credlet_api::Secret;
use credlet_exec::fuzzing::check_key_pair;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (chain, key) = text.split_once('\0').unwrap_or((text, text));
    match check_key_pair(chain, &Secret::new(key)) {
        Ok(leaf) => assert!(chain.contains("CERTIFICATE") && format!("{leaf:?}").contains("not_after")),
        Err(error) => assert!(!error.to_string().contains("-----")),
    }
});
