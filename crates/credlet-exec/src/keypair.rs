//! Checks that a certificate and a private key match.
//!
//! A mismatched pair must not replace a valid one, and this crate does not depend on a TLS stack. No signature is made: the
//! private key contains the public key (RSA, and EC in its usual form), or the public key is derived from it (Ed25519).

use credlet_api::Secret;
use jiff::Timestamp;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::asn1_rs::{self, Any, BitString, FromDer as _, Integer, OctetString, Sequence, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519};
use x509_parser::public_key::PublicKey;

use crate::credential::CertificateValidity;

/// Checks that a PEM certificate chain and a PEM private key match, and returns the validity of the certificate. The
/// error quotes neither.
pub(crate) fn check(chain_pem: &str, key_pem: &Secret) -> Result<CertificateValidity, KeyPairError> {
    let leaf = CertificateDer::from_pem_slice(chain_pem.as_bytes()).map_err(|_| KeyPairError::MissingCertificate)?;
    let (_, leaf) = X509Certificate::from_der(&leaf).map_err(|_| KeyPairError::InvalidCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.expose().as_bytes()).map_err(|_| KeyPairError::MissingKey)?;
    let public = public_key(&key).ok_or(KeyPairError::InvalidKey)?;
    let spki = leaf.public_key();
    let matches = match (public, spki.parsed()) {
        (PublicPart::Rsa { modulus }, Ok(PublicKey::RSA(rsa))) => {
            strip_leading_zeros(&modulus) == strip_leading_zeros(rsa.modulus)
        }
        (PublicPart::Ec(Some(point)), Ok(PublicKey::EC(ec))) => point == ec.data(),
        // RFC 5915 allows an EC key without the public key; deriving it is left to the TLS stack.
        (PublicPart::Ec(None), Ok(PublicKey::EC(_))) => true,
        (PublicPart::Ed25519(public), _) if spki.algorithm.algorithm == OID_SIG_ED25519 => {
            public.as_slice() == &*spki.subject_public_key.data
        }
        _ => false,
    };
    if !matches {
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

enum PublicPart {
    Rsa { modulus: Vec<u8> },
    Ec(Option<Vec<u8>>),
    Ed25519([u8; 32]),
}

fn public_key(key: &PrivateKeyDer<'_>) -> Option<PublicPart> {
    match key {
        PrivateKeyDer::Pkcs1(der) => pkcs1(der.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(der) => sec1(der.secret_sec1_der()),
        // Go ignores the PEM label, so plugins with a wrong label work with kubectl.
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            pkcs8(der).or_else(|| pkcs1(der)).or_else(|| sec1(der))
        }
        _ => None,
    }
}

/// RFC 8017: version, modulus, exponent, …
fn pkcs1(der: &[u8]) -> Option<PublicPart> {
    let (_, sequence) = Sequence::from_der(der).ok()?;
    let (rest, _version) = Integer::from_der(&sequence.content).ok()?;
    let (rest, modulus) = Integer::from_der(rest).ok()?;
    Integer::from_der(rest).ok()?;
    Some(PublicPart::Rsa { modulus: modulus.as_ref().to_vec() })
}

/// RFC 5915: version, private key, `[0]` curve, `[1]` public key.
fn sec1(der: &[u8]) -> Option<PublicPart> {
    let (_, sequence) = Sequence::from_der(der).ok()?;
    let (rest, _version) = Integer::from_der(&sequence.content).ok()?;
    let (mut rest, _private) = OctetString::from_der(rest).ok()?;
    while !rest.is_empty() {
        let (after, any) = Any::from_der(rest).ok()?;
        if any.tag() == Tag(1) && any.class() == asn1_rs::Class::ContextSpecific {
            let (_, point) = BitString::from_der(any.data).ok()?;
            return Some(PublicPart::Ec(Some(point.data.to_vec())));
        }
        rest = after;
    }
    Some(PublicPart::Ec(None))
}

/// RFC 5958: version, algorithm, key in an algorithm-specific encoding.
fn pkcs8(der: &[u8]) -> Option<PublicPart> {
    let (_, sequence) = Sequence::from_der(der).ok()?;
    let (rest, _version) = Integer::from_der(&sequence.content).ok()?;
    let (rest, algorithm) = x509_parser::x509::AlgorithmIdentifier::from_der(rest).ok()?;
    let (_, key) = OctetString::from_der(rest).ok()?;
    if algorithm.algorithm == OID_PKCS1_RSAENCRYPTION {
        pkcs1(key.as_ref())
    } else if algorithm.algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY {
        sec1(key.as_ref())
    } else if algorithm.algorithm == OID_SIG_ED25519 {
        let (_, seed) = OctetString::from_der(key.as_ref()).ok()?;
        let seed: zeroize::Zeroizing<[u8; 32]> = zeroize::Zeroizing::new(seed.as_ref().try_into().ok()?);
        Some(PublicPart::Ed25519(ed25519_dalek::SigningKey::from_bytes(&seed).verifying_key().to_bytes()))
    } else {
        None
    }
}

/// ASN.1 encodes a positive integer with a leading zero byte if its highest bit is set.
fn strip_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}
