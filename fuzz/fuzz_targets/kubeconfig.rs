//! A kubeconfig, from its bytes to connection settings.

#![no_main]

use credlet_api::kubeconfig::KubeconfigFile;
use credlet_exec::FixedEnv;
use credlet_kubeconfig::{ConfigOverrides, Kubeconfig};

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let _ = KubeconfigFile::decode(text);
    let env = FixedEnv::default();
    let Ok(kubeconfig) = Kubeconfig::from_bytes(text, &env) else { return };
    let _ = kubeconfig.check();
    if let Ok(resolved) = kubeconfig.resolve(&ConfigOverrides::default(), &env) {
        // A resolved configuration is usable: an address with a scheme and a valid exec section.
        assert!(resolved.server.value.contains("://"));
        if let Some(exec) = resolved.identity.exec_in_use() {
            assert_eq!(exec.config.validate(), Ok(()));
        }
    }
});
