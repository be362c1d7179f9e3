//! An image name: normalising is idempotent, and a name matches itself as a pattern.

#![no_main]

use credlet_image::{ImageName, ImagePattern, MatchTarget};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(name) = text.parse::<ImageName>() else { return };
    let again: ImageName = name.as_str().parse().expect("a completed name is a name");
    assert_eq!(again.as_str(), name.as_str());
    assert!(name.as_str().starts_with(name.registry()));
    if let Ok(target) = MatchTarget::parse(name.as_str()) {
        assert_eq!(target, MatchTarget::from(&name));
        // An IPv6 address without a port is the one that does not match itself.
        if !name.registry().ends_with(']') {
            assert!(ImagePattern::parse(name.as_str()).expect("a name is a pattern").matches(&target));
        }
    }
});
