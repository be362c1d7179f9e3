//! A kuberc file, and the policy in it.

#![no_main]

use credlet_api::kuberc::Preference;
use credlet_core::{FixedEnv, PluginPolicy, look_up};

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let Ok(preference) = Preference::decode(text) else { return };
    let said = !preference.credential_plugin_policy.is_empty() || preference.credential_plugin_allowlist.is_some();
    let Ok(policy) = PluginPolicy::new(&preference.credential_plugin_policy, preference.credential_plugin_allowlist)
    else {
        return;
    };
    // Nobody who has said nothing has forbidden anything, and nobody's file allows a program it does not name.
    let env = FixedEnv::new([("PATH", "/nowhere")]);
    for command in ["no-such-plugin-4711", "/no/such/plugin-4711"] {
        let allowed = policy.check(command, &look_up(command, &env), &env).is_ok();
        let named = std::str::from_utf8(text).is_ok_and(|text| text.contains("4711") || text.contains("AllowAll"));
        assert_eq!(allowed && !named, !said && !named);
    }
});
