//! The output of an image credential provider.

#![no_main]

use credlet_api::image::{CredentialProviderResponse, ProviderApiVersion};

libfuzzer_sys::fuzz_target!(|stdout: &[u8]| {
    for version in ProviderApiVersion::ALL {
        match CredentialProviderResponse::decode(stdout, version) {
            Ok((response, _)) => {
                let written = response.encode(version);
                let (again, _) = CredentialProviderResponse::decode(written.as_bytes(), version).expect("our own text");
                assert_eq!(again, response);
            }
            Err(error) => {
                let (text, error) = (String::from_utf8_lossy(stdout), format!("{error} {error:?}"));
                for word in text.split(|c: char| c.is_whitespace() || "\"'{}[]:,".contains(c)) {
                    assert!(word.len() <= 80 || !error.contains(word), "{error}");
                }
            }
        }
    }
});
