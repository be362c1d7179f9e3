//! The query of a login callback: a repeated parameter has no value.

#![no_main]

use credlet_oidc::fuzzing::callback_query;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let code = callback_query(text, "code");
    let plain = |pair: &&str| pair.starts_with("code=") && !pair.contains(['%', '+']);
    if text.split('&').filter(plain).count() > 1 {
        assert_eq!(code, None);
    }
});
