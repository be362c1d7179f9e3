//! A PKCS#11 URI (RFC 7512).

#![no_main]

use credlet_proxy::sign::pkcs11::{PinSource, Pkcs11Uri};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(mut uri) = Pkcs11Uri::parse(text) else { return };
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
    // The displayed URI parses to the same key.
    assert_eq!(Pkcs11Uri::parse(&uri.to_string()), Ok(uri));
});
