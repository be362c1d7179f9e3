//! Docker's config.json and .dockercfg, and pull secrets.

#![no_main]

use credlet_api::image::DockerAuths;
use credlet_image::DockerKeyring;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    for auths in [DockerAuths::from_config_json(text), DockerAuths::from_dockercfg(text)].into_iter().flatten() {
        let keyring = DockerKeyring::new(auths.0.clone());
        let _ = format!("{keyring:?}");
        // A user name with a colon cannot be written.
        if auths.0.values().all(|auth| !auth.username.contains(':') && !auth.username.is_empty()) {
            let again = DockerAuths::from_config_json(auths.to_config_json().as_bytes()).expect("our own text");
            assert_eq!(again, auths);
        }
    }
});
