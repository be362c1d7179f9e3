//! PSS padding in software (RFC 8017, section 9.1.1), for tokens that support only raw RSA.
//!
//! TLS 1.3 requires PSS with a salt of the length of the digest. Many TPMs use the longest possible salt, so their libraries do not offer
//! PSS; older cards do not support it.

use aws_lc_rs::digest::{self, Algorithm, Context};
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};

/// Returns the padded block to which the key is applied. Returns `None` if the modulus is too short or the system has no random bytes.
pub(super) fn encode(algorithm: &'static Algorithm, message: &[u8], modulus: &[u8]) -> Option<Vec<u8>> {
    let mut salt = vec![0; algorithm.output_len()];
    SystemRandom::new().fill(&mut salt).ok()?;
    encode_with(algorithm, message, modulus, &salt)
}

fn encode_with(algorithm: &'static Algorithm, message: &[u8], modulus: &[u8], salt: &[u8]) -> Option<Vec<u8>> {
    let modulus = &modulus[modulus.iter().take_while(|byte| **byte == 0).count()..];
    // One bit shorter than the modulus.
    let bits = 8 * modulus.len() - usize::try_from(modulus.first()?.leading_zeros()).ok()? - 1;
    let length = bits.div_ceil(8);
    let masked = length.checked_sub(algorithm.output_len() + 1)?;
    let zeros = masked.checked_sub(salt.len() + 1)?;

    let mut hash = Context::new(algorithm);
    hash.update(&[0; 8]);
    hash.update(digest::digest(algorithm, message).as_ref());
    hash.update(salt);
    let hash = hash.finish();

    // The output has the length of the modulus, which may be one byte more.
    let mut encoded = vec![0; modulus.len() - length + zeros];
    encoded.push(1);
    encoded.extend_from_slice(salt);
    let block = &mut encoded[modulus.len() - length..];
    for (byte, mask) in block.iter_mut().zip(mask(algorithm, hash.as_ref())) {
        *byte ^= mask;
    }
    *block.first_mut()? &= 0xff >> (8 * length - bits);
    encoded.extend_from_slice(hash.as_ref());
    encoded.push(0xbc);
    Some(encoded)
}

/// MGF1 as an unbounded iterator.
fn mask(algorithm: &'static Algorithm, seed: &[u8]) -> impl Iterator<Item = u8> {
    (0_u32..).flat_map(move |counter| {
        let mut hash = Context::new(algorithm);
        hash.update(seed);
        hash.update(&counter.to_be_bytes());
        hash.finish().as_ref().to_vec()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// Blocks recovered from OpenSSL's signatures with the public key, for moduli of 1024 and 1025 bits. Only the length of the modulus
    /// matters.
    #[test]
    fn padding_matches_openssl() {
        let mut modulus = [0xff; 129];
        modulus[0] = 1;
        for (modulus, salt, wanted) in [
            (
                &modulus[1..],
                "97681e3c691d25f949341105e6c1622e8ba3ce4473b8935039e42fe5be26d12c",
                "22a2bd4ab78efab72bb29b60cf02a776be4c6341948cc35bcfd4443270c379e6\
                 c9720d3790b286c5c52d949d5780c925a59b48fe5491480fa378029d41d741ea\
                 ac22d6e17f297d13452bb68a4faca604d59d85ca5e957e24197e34ecc778bbd6\
                 36934a09b4ab996d6512cf35c979ced861d7a0f2caa1c3cb509b9cc78ffe33bc",
            ),
            (
                &modulus[..],
                "5a23d37836af46641c97cff35c1e7dee8d8e896eb2b5694ea2a259edf88a5778",
                "00a9e4c62c8df5b6636e457102ada9a2e3a5a717a0af9954e5ac4178ce476a19\
                 8fe07bfcaf096676c7829f36f452d37f8a055039135f342020da310b1194e51d\
                 0b0e82381f0a0df1e9e65a7328580bdb1a20a97a0fd08aa49e45167c770d2c2f\
                 0657a9d5a8f543a59d9cd118fdccddf7dd3a99f681eccfab594d281aab0723e5\
                 bc",
            ),
        ] {
            let encoded = encode_with(&digest::SHA256, b"message", modulus, &bytes(salt));
            assert_eq!(encoded, Some(bytes(wanted)), "{} bytes", modulus.len());
        }
    }

    #[test]
    fn ignores_leading_zeros_of_modulus() {
        let salt = [7; 32];
        let (plain, more) = ([0x80; 256], [&[0][..], &[0x80; 256]].concat());
        let encoded = encode_with(&digest::SHA256, b"message", &plain, &salt);
        assert_eq!(encoded, encode_with(&digest::SHA256, b"message", &more, &salt));
        assert_eq!(encoded.map(|encoded| encoded.len()), Some(256));
    }

    #[test]
    fn rejects_short_modulus() {
        // 128 bytes of salt and digest, two bytes of padding, and one for the length.
        assert!(encode(&digest::SHA512, b"message", &[0xff; 130]).is_some());
        assert!(encode(&digest::SHA512, b"message", &[0xff; 129]).is_none());
        assert!(encode(&digest::SHA256, b"message", &[]).is_none());
        assert!(encode(&digest::SHA256, b"message", &[0; 256]).is_none());
    }

    #[test]
    fn salts_differ() {
        let one = || encode(&digest::SHA256, b"message", &[0xff; 256]).unwrap();
        assert_ne!(one(), one());
    }
}
