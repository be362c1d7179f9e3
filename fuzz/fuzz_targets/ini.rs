//! INI files of AWS, Google and Oracle tools, and command lines in them.

#![no_main]

#[path = "../../crates/credlet-cloud/src/ini.rs"]
mod ini;

libfuzzer_sys::fuzz_target!(|text: &str| {
    for section in ini::parse(text) {
        assert!(text.contains(section.title.as_str()));
        for name in ["region", "credential_process", "s3.endpoint", "fingerprint"] {
            assert!(section.value(name).is_none_or(|value| !value.is_empty() && value.len() <= text.len()));
        }
    }
    if let Some(words) = ini::split_shell_words(text) {
        assert!(words.iter().map(String::len).sum::<usize>() <= text.len());
        // Quoting and splitting round-trips.
        let quoted: Vec<_> = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        assert_eq!(ini::split_shell_words(&quoted.join(" ")), Some(words));
    }
});
