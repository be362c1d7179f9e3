//! Values that nobody can guess, and the proof that one knows them (RFC 7636).

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use zeroize::Zeroizing;

use super::Error;

/// 256 bits in 43 characters that fit everywhere.
pub(super) fn unguessable() -> Result<Secret, Error> {
    let mut bytes = Zeroizing::new([0; 32]);
    rand::fill(&mut *bytes).map_err(|_| Error::NoRandom)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes.as_slice())))
}

/// `S256`: what is shown before the verifier itself is.
pub(super) fn challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.expose().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_specification() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn no_two_values_are_alike() {
        let (one, two) = (unguessable().unwrap(), unguessable().unwrap());
        assert_eq!(one.expose().len(), 43);
        assert_ne!(one, two);
    }
}
