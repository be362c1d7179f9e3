//! Escaped text has no control characters, and escaping is idempotent.

#![no_main]

use credlet_api::escape_control_chars;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let safe = escape_control_chars(text);
    assert!(!safe.contains(|c: char| c.is_control() && !matches!(c, '\t'..='\r')));
    let bidirectional = ['\u{61c}', '\u{200e}', '\u{200f}'].into_iter().chain('\u{202a}'..='\u{202e}');
    assert!(!bidirectional.chain('\u{2066}'..='\u{2069}').any(|c| safe.contains(c)));
    assert_eq!(escape_control_chars(&safe), safe);
});
