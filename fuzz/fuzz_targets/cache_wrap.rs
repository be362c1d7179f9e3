//! A plugin wrapped with the cache in a kubeconfig, and unwrapped.

#![no_main]

use credlet_api::kubeconfig::KubeconfigFile;
use credlet_kubeconfig::edit::{exec_users, unwrap, wrap};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(before) = exec_users(text) else { return };
    let plain = |text: &str| {
        let users = exec_users(text).expect("the result is a kubeconfig").into_iter();
        users.map(|user| (user.name, user.plugin)).collect::<Vec<_>>()
    };
    let unchanged = plain(text);
    let config = KubeconfigFile::decode(text.as_bytes()).expect("it has users");
    for user in before.iter().take(2) {
        if user.wrapped {
            if let Ok(new) = unwrap(text, &user.name) {
                assert_eq!(plain(&new).len(), unchanged.len());
            }
            continue;
        }
        let Ok(wrapped) = wrap(text, &user.name, "credlet", &[]) else { continue };
        assert_eq!(plain(&wrapped), unchanged, "the plugins are the same behind the cache");
        let new = KubeconfigFile::decode(wrapped.as_bytes()).expect("the result is a kubeconfig");
        assert_eq!((new.clusters.len(), new.contexts.len()), (config.clusters.len(), config.contexts.len()));
        if let Ok(back) = unwrap(&wrapped, &user.name) {
            assert_eq!(plain(&back), unchanged);
            assert!(
                !exec_users(&back).expect("a kubeconfig").iter().any(|found| found.name == user.name && found.wrapped)
            );
        }
    }
});
