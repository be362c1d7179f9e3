//! The request of an image credential provider.

#![no_main]

use credlet_api::image::CredentialProviderRequest;

libfuzzer_sys::fuzz_target!(|stdin: &[u8]| {
    let Ok(request) = CredentialProviderRequest::decode(stdin) else { return };
    let written = request.encode();
    let again = CredentialProviderRequest::decode(written.as_bytes()).expect("our own text");
    assert_eq!(again.encode(), written);
});
