//! The output of a docker credential helper.

#![no_main]

use credlet_api::image::DockerHelperCredential;

libfuzzer_sys::fuzz_target!(|stdout: &[u8]| {
    let Ok(credential) = DockerHelperCredential::decode(stdout) else { return };
    let again = DockerHelperCredential::decode(credential.encode().as_bytes()).expect("our own text");
    assert_eq!(again.encode(), credential.encode());
});
