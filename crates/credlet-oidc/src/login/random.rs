//! Random values for state, nonce and PKCE (RFC 7636).

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use zeroize::Zeroizing;

use super::OidcError;

/// Returns 256 random bits as 43 characters of URL-safe base64.
pub(super) fn random_token() -> Result<Secret, OidcError> {
    let mut bytes = Zeroizing::new([0; 32]);
    rand::fill(&mut *bytes).map_err(|_| OidcError::RandomUnavailable)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes.as_slice())))
}

/// The `S256` code challenge of a verifier.
pub(super) fn pkce_challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.expose().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_matches_rfc_7636() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(pkce_challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn random_tokens_differ() {
        let (one, two) = (random_token().unwrap(), random_token().unwrap());
        assert_eq!(one.expose().len(), 43);
        assert_ne!(one, two);
    }
}
