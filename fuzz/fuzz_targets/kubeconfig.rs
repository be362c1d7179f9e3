//! A kubeconfig file, from its bytes to what a connection would need.

#![no_main]

use credlet_api::kubeconfig::Config;
use credlet_client::kubeconfig::{Kubeconfig, Overrides};
use credlet_core::FixedEnv;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let _ = Config::decode(text);
    let env = FixedEnv::default();
    let Ok(kubeconfig) = Kubeconfig::from_bytes(text, &env) else { return };
    let _ = kubeconfig.check();
    if let Ok(resolved) = kubeconfig.resolve(&Overrides::default(), &env) {
        // What was resolved can be used: an address with a scheme, and an exec section without mistakes.
        assert!(resolved.server.value.contains("://"));
        if let Some(exec) = resolved.identity.exec_in_use() {
            assert_eq!(exec.config.check(), Ok(()));
        }
    }
});
