//! Azure's cloud provider configuration, and the API server's SelfSubjectReview.

#![no_main]

use credlet_api::image::AzureConfig;
use credlet_api::review::UserInfo;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    if let Ok(config) = AzureConfig::decode(text) {
        let secret = config.aad_client_secret.expose();
        assert!(secret.len() < 24 || !format!("{config:?}").contains(secret));
    }
    let _ = UserInfo::decode(text);
});
