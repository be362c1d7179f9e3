//! A kuberc file and its plugin policy.

#![no_main]

use credlet_api::kuberc::KubercPreference;
use credlet_exec::{FixedEnv, PluginPolicy, find_program};

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let Ok(preference) = KubercPreference::decode(text) else { return };
    let said = !preference.credential_plugin_policy.is_empty() || preference.credential_plugin_allowlist.is_some();
    let Ok(policy) = PluginPolicy::new(&preference.credential_plugin_policy, preference.credential_plugin_allowlist)
    else {
        return;
    };
    // An empty file forbids nothing, and a file with a list allows only the programs it names.
    let env = FixedEnv::new([("PATH", "/nowhere")]);
    for command in ["no-such-plugin-4711", "/no/such/plugin-4711"] {
        let allowed = policy.check(command, &find_program(command, &env), &env).is_ok();
        let named = std::str::from_utf8(text).is_ok_and(|text| text.contains("4711") || text.contains("AllowAll"));
        assert_eq!(allowed && !named, !said && !named);
    }
});
