//! A pattern and an image, apart by a line break: index, reasons and matcher agree.

#![no_main]

use credlet_image::{Pattern, PatternIndex, Target, normalise};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (pattern, image) = text.split_once('\n').unwrap_or((text, ""));
    let _ = normalise(pattern);
    let (Ok(pattern), Ok(target)) = (Pattern::parse(pattern), Target::parse(image)) else { return };
    let matches = pattern.matches(&target);
    let index: PatternIndex = [&pattern].into_iter().collect();
    assert_eq!(index.matching(&target).len(), usize::from(matches));
    assert_eq!(pattern.mismatches(&target).is_empty(), matches);
    assert!(pattern.covers(&pattern));
});
