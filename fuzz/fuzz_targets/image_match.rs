//! A pattern and an image, separated by a line break: index, explanation and matcher agree.

#![no_main]

use credlet_image::{ImagePattern, MatchTarget, PatternIndex, normalise};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (pattern, image) = text.split_once('\n').unwrap_or((text, ""));
    let _ = normalise(pattern);
    let (Ok(pattern), Ok(target)) = (ImagePattern::parse(pattern), MatchTarget::parse(image)) else { return };
    let matches = pattern.matches(&target);
    let index: PatternIndex = [&pattern].into_iter().collect();
    assert_eq!(index.matching(&target).len(), usize::from(matches));
    assert_eq!(pattern.mismatches(&target).is_empty(), matches);
    assert!(pattern.covers(&pattern));
});
