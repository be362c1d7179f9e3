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
        for line in text.lines().filter_map(|line| line.split_once(':')).map(|(_, value)| value.trim()) {
            let is_secret = line.len() >= 24 && !line.contains(char::is_whitespace);
            assert!(!is_secret || !reason.contains(line), "{reason}");
        }
    }
});
