//! An image's name: what is completed once stays as it is, and matches the pattern that it is itself.

#![no_main]

use credlet_image::{ImageName, Pattern, Target};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(name) = text.parse::<ImageName>() else { return };
    let again: ImageName = name.as_str().parse().expect("a completed name is a name");
    assert_eq!(again.as_str(), name.as_str());
    assert!(name.as_str().starts_with(name.registry()));
    if let Ok(target) = Target::parse(name.as_str()) {
        assert_eq!(target, Target::from(&name));
        // An IPv6 address without a port is the one that does not match itself.
        if !name.registry().ends_with(']') {
            assert!(Pattern::parse(name.as_str()).expect("a name is a pattern").matches(&target));
        }
    }
});
