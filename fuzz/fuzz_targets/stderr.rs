//! Standard error of a failed plugin, after its standard output and a NUL: no output is shown.

#![no_main]

use credlet_exec::{last_line, sanitize_output};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
    let (stdout, stderr) = bytes.split_at(at);
    let text = sanitize_output(stderr, stdout, []);
    assert!(!text.contains(|c: char| c.is_control() && !matches!(c, '\t'..='\r')));
    let line = last_line(&text);
    assert!(!line.contains('\n') && line.chars().count() <= 301);
});
