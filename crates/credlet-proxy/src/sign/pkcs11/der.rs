//! DER encoding of ECDSA signatures, and decoding of EC points.

/// Converts an ECDSA signature from the form of PKCS#11, two numbers of equal length, to that of TLS, a SEQUENCE of two INTEGERs. Returns
/// `None` if the length is not that of a supported curve.
pub(super) fn ecdsa_signature(raw: &[u8]) -> Option<Vec<u8>> {
    // Up to P-521, whose numbers have 66 bytes.
    if raw.is_empty() || !raw.len().is_multiple_of(2) || raw.len() > 2 * 66 {
        return None;
    }
    let (r, s) = raw.split_at(raw.len() / 2);
    let mut body = Vec::with_capacity(raw.len() + 6);
    integer(&mut body, r);
    integer(&mut body, s);
    let mut signature = vec![0x30];
    match u8::try_from(body.len()).ok()? {
        length @ 0..=127 => signature.push(length),
        length => signature.extend([0x81, length]),
    }
    signature.append(&mut body);
    Some(signature)
}

/// Writes an INTEGER without leading zeros, except one where the number would be negative otherwise.
fn integer(out: &mut Vec<u8>, number: &[u8]) {
    let zeros = number.iter().take_while(|byte| **byte == 0).count().min(number.len().saturating_sub(1));
    let number = &number[zeros..];
    let padding = number.first().is_some_and(|byte| byte & 0x80 != 0);
    // At most 67 bytes.
    out.extend([0x02, u8::try_from(number.len()).unwrap_or_default() + u8::from(padding)]);
    if padding {
        out.push(0);
    }
    out.extend_from_slice(number);
}

/// Returns whether `CKA_EC_POINT` can be this point. PKCS#11 requires an OCTET STRING, but some tokens return the bare point, which can
/// look like an OCTET STRING by chance. Data of neither form is accepted.
pub(super) fn may_be_point(given: &[u8], point: &[u8]) -> bool {
    given == point || octet_string(given).is_none_or(|inside| inside == point)
}

/// Returns the content of an OCTET STRING, or `None` if the data is not one.
fn octet_string(der: &[u8]) -> Option<&[u8]> {
    match der {
        [0x04, length @ 0..=127, rest @ ..] if usize::from(*length) == rest.len() => Some(rest),
        [0x04, 0x81, length @ 128..=255, rest @ ..] if usize::from(*length) == rest.len() => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_ASN1,
        ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_ASN1, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
        KeyPair as _, UnparsedPublicKey,
    };
    use proptest::prelude::*;

    use super::*;

    /// Parses a signature strictly.
    fn numbers(der: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let body = match der {
            [0x30, 0x81, length @ 128..=255, body @ ..] | [0x30, length @ 0..=127, body @ ..] => {
                assert_eq!(usize::from(*length), body.len());
                body
            }
            _ => panic!("no SEQUENCE: {der:x?}"),
        };
        let number = |der: &[u8]| {
            let [0x02, length, rest @ ..] = der else { panic!("no INTEGER: {der:x?}") };
            let (number, rest) = rest.split_at(usize::from(*length));
            assert!(number[0] & 0x80 == 0, "negative");
            assert!(number.len() == 1 || number[0] != 0 || number[1] & 0x80 != 0, "a zero too many");
            let plain = number.iter().skip_while(|byte| **byte == 0).copied().collect::<Vec<u8>>();
            (plain, rest.to_vec())
        };
        let (r, rest) = number(body);
        let (s, rest) = number(&rest);
        assert!(rest.is_empty());
        (r, s)
    }

    proptest! {
        #[test]
        fn keeps_both_integers(half in 1_usize..=66, bytes in proptest::collection::vec(any::<u8>(), 132), zeros in 0_usize..70) {
            let mut raw = bytes[..2 * half].to_vec();
            raw[..zeros.min(half)].fill(0);
            let plain = |number: &[u8]| number.iter().skip_while(|byte| **byte == 0).copied().collect::<Vec<u8>>();
            let wanted = (plain(&raw[..half]), plain(&raw[half..]));
            prop_assert_eq!(numbers(&ecdsa_signature(&raw).unwrap()), wanted);
        }
    }

    #[test]
    fn converted_signatures_verify() {
        for (signing, verifying) in [
            (&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P256_SHA256_ASN1),
            (&ECDSA_P384_SHA384_FIXED_SIGNING, &ECDSA_P384_SHA384_ASN1),
            (&ECDSA_P521_SHA512_FIXED_SIGNING, &ECDSA_P521_SHA512_ASN1),
        ] {
            let pair = EcdsaKeyPair::generate(signing).unwrap();
            // 32 signatures, so that both paddings occur.
            for message in 0..32_u8 {
                let raw = pair.sign(&SystemRandom::new(), &[message]).unwrap();
                let signature = ecdsa_signature(raw.as_ref()).unwrap();
                let public = UnparsedPublicKey::new(verifying, pair.public_key().as_ref());
                public.verify(&[message], &signature).unwrap();
            }
        }
    }

    #[test]
    fn rejects_invalid_lengths() {
        for length in [0, 1, 63, 133, 134, 4096] {
            assert_eq!(ecdsa_signature(&vec![1; length]), None, "{length}");
        }
    }

    #[test]
    fn compares_packed_and_bare_points() {
        // The second byte is the length of an OCTET STRING, or a part of a bare point.
        let bare = [&[4, 63][..], &[9; 63]].concat();
        let packed = [&[4, 65][..], &bare].concat();
        assert!(may_be_point(&packed, &bare) && may_be_point(&bare, &bare));
        assert!(may_be_point(&[3, 2, 7, 8], &bare), "unknown form");
        let other = [&[4, 63][..], &[8; 63]].concat();
        assert!(!may_be_point(&packed, &other) && !may_be_point(&bare, &other));
    }

    #[test]
    fn unpacks_octet_string_strictly() {
        assert_eq!(octet_string(&[4, 2, 7, 8]), Some(&[7, 8][..]));
        let long = [&[4, 0x81, 133][..], &[9; 133]].concat();
        assert_eq!(octet_string(&long), Some(&[9; 133][..]));
        for wrong in [&[][..], &[4], &[4, 3, 7, 8], &[4, 1, 7, 8], &[5, 2, 7, 8], &[4, 0x81, 2, 7, 8]] {
            assert_eq!(octet_string(wrong), None, "{wrong:?}");
        }
    }
}
