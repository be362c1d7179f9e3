//! DER for signatures and points of a PKCS#11 token.

#![no_main]

use credlet_proxy::sign::pkcs11::fuzzing::{ecdsa_signature, is_known_curve, may_be_point};

/// The next element: its tag and its content.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, length, rest) = match *der {
        [tag, 0x81, length, ref rest @ ..] if length >= 0x80 => (tag, length, rest),
        [tag, length, ref rest @ ..] if length < 0x80 => (tag, length, rest),
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(usize::from(length))?;
    Some((tag, content, rest))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(signature) = ecdsa_signature(bytes) {
        let Some((0x30, body, [])) = element(&signature) else { panic!("not a sequence") };
        let Some((2, r, rest)) = element(body) else { panic!("no first integer") };
        let Some((2, s, [])) = element(rest) else { panic!("no second integer") };
        let trimmed = |number: &[u8]| number.iter().skip_while(|byte| **byte == 0).copied().collect::<Vec<_>>();
        let (raw_r, raw_s) = bytes.split_at(bytes.len() / 2);
        assert_eq!((trimmed(r), trimmed(s)), (trimmed(raw_r), trimmed(raw_s)));
        // Minimal, and not negative.
        for number in [r, s] {
            assert!(number[0] < 0x80 && (number.len() == 1 || number[0] != 0 || number[1] >= 0x80));
        }
    }
    let (given, point) = bytes.split_at(bytes.len() / 2);
    assert!(may_be_point(point, point));
    let _ = (may_be_point(given, point), is_known_curve(bytes));
});
