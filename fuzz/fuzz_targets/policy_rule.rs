//! Proxy policy rules, as arguments.

#![no_main]

use credlet_proxy::policy::{AllowRule, DenyRule};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(allow) = text.parse::<AllowRule>() {
        assert_eq!(allow.to_string().parse(), Ok(allow));
    }
    if let Ok(deny) = text.parse::<DenyRule>() {
        assert_eq!(deny.to_string(), text);
    }
});
