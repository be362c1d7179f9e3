//! Is there anything of use in it? Whether that is sound is for the connection to say.

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// As in Go, what is no certificate is skipped, and one is enough.
pub(crate) fn has_certificate(pem: &[u8]) -> bool {
    CertificateDer::pem_slice_iter(pem).any(|found| found.is_ok())
}

pub(super) fn has_key(pem: &[u8]) -> bool {
    PrivateKeyDer::from_pem_slice(pem).is_ok()
}
