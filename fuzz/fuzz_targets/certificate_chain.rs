//! A PEM file with certificates.

#![no_main]

use credlet_proxy::sign::pkcs11::fuzzing::certificate_chain;

libfuzzer_sys::fuzz_target!(|pem: &[u8]| match certificate_chain(pem) {
    Ok(count) => assert!(count > 0),
    Err(reason) => assert!(!reason.contains("-----")),
});
