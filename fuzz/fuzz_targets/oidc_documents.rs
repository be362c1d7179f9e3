//! Issuer documents: discovery, keys, token and device authorization responses.

#![no_main]

use credlet_api::oidc;

/// The only field name longer than 40 bytes. Errors name fields, in backticks.
const LONGEST_FIELD: &str = "`authorization_response_iss_parameter_supported`";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let faults = [
        oidc::ProviderMetadata::decode(bytes).err(),
        oidc::JwkSet::decode(bytes).err(),
        oidc::TokenResponse::decode(bytes).err(),
        oidc::DeviceAuthorization::decode(bytes).err(),
    ];
    // Errors quote no value: it may be a token.
    let text = String::from_utf8_lossy(bytes);
    for fault in faults.into_iter().flatten().map(|fault| format!("{fault} {fault:?}")) {
        for word in text.split(|c: char| c.is_whitespace() || "\"'{}[]:,".contains(c)) {
            assert!(word.len() <= 40 || LONGEST_FIELD.contains(word) || !fault.contains(word), "{fault}");
        }
    }
    if let Some(code) = oidc::token_error_code(bytes) {
        assert_eq!(oidc::known_error_code(code), Some(code));
    }
});
