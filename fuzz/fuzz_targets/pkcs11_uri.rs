//! The address of a key in a security module.

#![no_main]

use credlet_plugins::proxy::pkcs11::{PinSource, Uri};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(mut uri) = Uri::parse(text) else { return };
    // A PIN has no place in it.
    let query = text.split_once('?').map_or("", |(_, query)| query);
    assert!(!query.split('&').any(|attribute| attribute.starts_with("pin-value=")));
    if let Some(PinSource::File(path)) = uri.pin_source.take() {
        assert!(path.is_absolute());
    }
    if let Some(path) = uri.module_path.take() {
        assert!(path.is_absolute());
    }
    if let Some(name) = uri.module_name.take() {
        assert!(!name.contains('/'));
    }
    // What is left is what is shown, and means the same key when it is read again.
    assert_eq!(Uri::parse(&uri.to_string()), Ok(uri));
});
