//! Azure's cloud provider configuration, and the API server's SelfSubjectReview.

#![no_main]

use credlet_api::Secret;
use credlet_api::image::AzureConfig;
use credlet_api::review::UserInfo;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    if let Ok(mut config) = AzureConfig::decode(text) {
        // `Debug` output does not depend on the secret, whatever the other fields contain.
        let shown = format!("{config:?}");
        config.aad_client_secret = Secret::new("another secret");
        assert_eq!(format!("{config:?}"), shown);
    }
    let _ = UserInfo::decode(text);
});
