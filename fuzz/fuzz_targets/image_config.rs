//! The kubelet's CredentialProviderConfig: every error has a line.

#![no_main]

use credlet_api::image::CredentialProviderConfig;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let (config, faults) = CredentialProviderConfig::decode(text);
    let lines = text.iter().filter(|byte| b"\r\n".contains(byte)).count() + 2;
    assert!(faults.iter().all(|fault| fault.line <= lines));
    assert!(faults.iter().all(|fault| !fault.kind.to_string().contains('\u{1b}')));
    assert!(config.providers.iter().all(|provider| provider.line <= lines));
});
