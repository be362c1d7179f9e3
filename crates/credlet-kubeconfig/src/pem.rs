//! Detects certificates and keys in PEM text. They are validated when a connection is opened.

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Returns whether the text contains a certificate. Other blocks are skipped, as in Go.
pub fn has_certificate(pem: &[u8]) -> bool {
    CertificateDer::pem_slice_iter(pem).any(|found| found.is_ok())
}

/// Returns whether the text contains a private key.
pub fn has_private_key(pem: &[u8]) -> bool {
    PrivateKeyDer::from_pem_slice(pem).is_ok()
}
