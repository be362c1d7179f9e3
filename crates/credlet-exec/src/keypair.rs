//! Checks that a certificate and a private key match, without a TLS stack: a mismatched pair must not replace a valid one.

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair,
    Ed25519KeyPair, KeyPair as _,
};
use credlet_api::Secret;
use jiff::Timestamp;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::credential::CertificateValidity;

/// Checks that a PEM certificate chain and a PEM private key match, and returns the validity of the certificate. The
/// error quotes neither.
pub(crate) fn check(chain_pem: &str, key_pem: &Secret) -> Result<CertificateValidity, KeyPairError> {
    let leaf = CertificateDer::from_pem_slice(chain_pem.as_bytes()).map_err(|_| KeyPairError::MissingCertificate)?;
    let (_, leaf) = X509Certificate::from_der(&leaf).map_err(|_| KeyPairError::InvalidCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.expose().as_bytes()).map_err(|_| KeyPairError::MissingKey)?;
    let public = public_key(&key).ok_or(KeyPairError::InvalidKey)?;
    if public != *leaf.public_key().subject_public_key.data {
        return Err(KeyPairError::Mismatch);
    }
    let time = |at: x509_parser::time::ASN1Time| Timestamp::from_second(at.timestamp());
    let validity = leaf.validity();
    match (time(validity.not_before), time(validity.not_after)) {
        (Ok(not_before), Ok(not_after)) => Ok(CertificateValidity { not_before, not_after }),
        _ => Err(KeyPairError::InvalidCertificate),
    }
}

/// A client certificate or its key is malformed, or they do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyPairError {
    /// No PEM certificate.
    #[error("missing PEM certificate in clientCertificateData")]
    MissingCertificate,
    /// The first certificate is not X.509, or its validity is out of range.
    #[error("invalid certificate in clientCertificateData")]
    InvalidCertificate,
    /// No PEM private key.
    #[error("missing PEM private key in clientKeyData")]
    MissingKey,
    /// Malformed key, or an unsupported algorithm.
    #[error("invalid private key in clientKeyData: must be RSA, EC or Ed25519")]
    InvalidKey,
    /// The key belongs to another certificate.
    #[error("clientKeyData does not match clientCertificateData")]
    Mismatch,
}

/// Derives the public key of a private key, as it stands in `subjectPublicKey` of a certificate.
fn public_key(key: &PrivateKeyDer<'_>) -> Option<Vec<u8>> {
    match key {
        PrivateKeyDer::Pkcs1(der) => rsa_public_key(RsaKeyPair::from_der(der.secret_pkcs1_der())),
        PrivateKeyDer::Sec1(der) => ec_public_key(der.secret_sec1_der()),
        // Go ignores the PEM label, so plugins with a wrong label work with kubectl.
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            let ed25519 = || Some(Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?.public_key().as_ref().to_vec());
            rsa_public_key(RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)))
                .or_else(ed25519)
                .or_else(|| ec_public_key(der))
        }
        _ => None,
    }
}

fn rsa_public_key(key: Result<RsaKeyPair, KeyRejected>) -> Option<Vec<u8>> {
    Some(key.ok()?.public_key().as_ref().to_vec())
}

fn ec_public_key(der: &[u8]) -> Option<Vec<u8>> {
    let curves = [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P521_SHA512_ASN1_SIGNING];
    let key = curves.into_iter().find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok())?;
    Some(key.public_key().as_ref().to_vec())
}
