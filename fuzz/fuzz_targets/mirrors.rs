//! Registry mirrors; the first line selects the source.

#![no_main]

#[path = "../../crates/credlet-cloud/src/image/mirror.rs"]
mod mirror;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (registry, text) = text.split_once('\n').unwrap_or(("", text));
    let Ok(mirrors) = mirror::MirrorList::parse(text) else { return };
    if let Some(host) = mirror::upstream_of(&[mirrors], registry) {
        assert!(!host.is_empty() && !host.contains('/') && text.contains(host) && text.contains(registry));
    }
});
