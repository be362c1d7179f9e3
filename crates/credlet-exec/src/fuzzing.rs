//! Entry points for `fuzz/fuzz_targets` into private parsers. Not part of the public API.

use credlet_api::Secret;

use crate::credential::CertificateValidity;
use crate::keypair::{self, KeyPairError};

/// Checks that a PEM certificate chain and a PEM private key match.
///
/// # Errors
/// See [`KeyPairError`].
pub fn check_key_pair(chain_pem: &str, key_pem: &Secret) -> Result<CertificateValidity, KeyPairError> {
    keypair::check(chain_pem, key_pem)
}
