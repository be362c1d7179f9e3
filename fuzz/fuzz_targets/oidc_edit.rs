//! A value of an auth-provider replaced in a kubeconfig: nothing else changes.

#![no_main]

use credlet_api::Secret;
use credlet_api::kubeconfig::KubeconfigFile;
use credlet_kubeconfig::edit::set_auth_provider_value;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(config) = KubeconfigFile::decode(text.as_bytes()) else { return };
    let of = |config: &KubeconfigFile, user: &str| {
        let found = config.users.iter().find(|entry| entry.name == user)?;
        found.item.auth_provider.as_ref().map(|provider| provider.value.config.clone())
    };
    for user in config.users.iter().take(2).map(|entry| entry.name.as_str()) {
        for value in ["eyJhbGciOiJub25lIn0.e30.", "12345678", "it's \"quoted\": # \\\u{7}"] {
            let value = Secret::new(value);
            let Some(edited) = set_auth_provider_value(text, user, "id-token", &value) else { continue };
            let new = KubeconfigFile::decode(edited.as_bytes()).expect("the result is a kubeconfig");
            let mut wanted = of(&config, user).expect("it was there");
            wanted.insert("id-token".to_owned(), value);
            assert_eq!(of(&new, user), Some(wanted));
            let others = |config: &KubeconfigFile| {
                let users = config.users.iter().filter(|entry| entry.name != user);
                users.map(|entry| (entry.name.clone(), of(config, &entry.name))).collect::<Vec<_>>()
            };
            assert_eq!(others(&new), others(&config));
            assert_eq!((&new.clusters, &new.contexts), (&config.clusters, &config.contexts));
        }
    }
});
