//! gcloud's SQLite file of access tokens.

#![no_main]

#[expect(dead_code, reason = "only what reads bytes is wanted, not what reads files")]
#[path = "../../crates/credlet-cloud/src/gcp/sqlite.rs"]
mod reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for (table, key) in [("access_tokens", "ada@example.test"), ("credentials", "ada@example.test")] {
        if let Some(columns) = reader::find_in_bytes(bytes, table, key) {
            assert_eq!(columns.first().and_then(|first| first.as_deref()).map(String::as_str), Some(key));
        }
    }
});
