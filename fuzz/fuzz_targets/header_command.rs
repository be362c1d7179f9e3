//! The output of a command that prints headers.

#![no_main]

use credlet_proxy::sign::fuzzing::parse_headers;

libfuzzer_sys::fuzz_target!(|text: &str| match parse_headers(text) {
    Ok((headers, _)) => {
        assert!(!headers.is_empty() && !headers.contains_key("host") && !headers.contains_key("content-length"));
        assert!(headers.values().all(|value| value.is_sensitive()));
    }
    // Values are secrets.
    Err(reason) => {
        let lines = || text.lines().filter_map(|line| line.split_once(':'));
        for value in lines().map(|(_, value)| value.trim()) {
            // Errors quote header names, and a value may be equal to one.
            let is_name = lines().any(|(name, _)| name.contains(value));
            let is_secret = value.len() >= 24 && !value.contains(char::is_whitespace) && !is_name;
            assert!(!is_secret || !reason.contains(value), "{reason}");
        }
    }
});
