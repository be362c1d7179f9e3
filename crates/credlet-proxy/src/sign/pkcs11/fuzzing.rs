//! Entry points of `fuzz/fuzz_targets` into parsers that are private otherwise. Not part of the public interface.

use super::mechanism::KeyKind;
use super::{chain, der};

/// Returns the number of certificates in a PEM file.
///
/// # Errors
/// The message for the user.
pub fn certificate_chain(pem: &[u8]) -> Result<usize, String> {
    chain::from_pem(pem).map(|chain| chain.len()).map_err(|error| error.to_string())
}

/// Returns whether `CKA_EC_PARAMS` names a supported curve.
pub fn is_known_curve(params: &[u8]) -> bool {
    KeyKind::from_ec_params(params).is_some()
}

/// Converts a raw ECDSA signature to DER.
pub fn ecdsa_signature(raw: &[u8]) -> Option<Vec<u8>> {
    der::ecdsa_signature(raw)
}

/// Returns whether `CKA_EC_POINT` can be this point.
pub fn may_be_point(given: &[u8], point: &[u8]) -> bool {
    der::may_be_point(given, point)
}
