//! An SSO login in the AWS CLI's cache, and AWS timestamps.

#![no_main]

use credlet_cloud::aws::fuzzing::{parse_http_date, parse_time, sso_cache};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some((token, _)) = sso_cache(text) {
        assert!(text.contains('{') && token.expose().len() <= text.len());
    }
    let _ = parse_http_date(text);
    if let Some(time) = parse_time(text) {
        assert_eq!(parse_time(&time.to_string()), Some(time));
    }
});
