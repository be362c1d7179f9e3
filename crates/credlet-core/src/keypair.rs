//! Whether a certificate and a private key belong together, found out by looking at them.
//!
//! A mismatched pair must be refused before it replaces a good one. The TLS stack would notice too, but only when it is
//! too late, and this crate knows none. No signature is made: a private key either contains its public half (RSA, and
//! EC as everybody writes it) or the public half is one multiplication away (Ed25519).

use credlet_api::Secret;
use jiff::Timestamp;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::asn1_rs::{self, Any, BitString, FromDer as _, Integer, OctetString, Sequence, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519};
use x509_parser::public_key::PublicKey;

use crate::credential::Leaf;

/// Checks a pair, and tells what its certificate says of itself.
///
/// # Errors
/// The plugin's author must act. Neither half is quoted.
pub(crate) fn check(chain_pem: &str, key_pem: &Secret) -> Result<Leaf, KeyPairError> {
    let leaf = CertificateDer::from_pem_slice(chain_pem.as_bytes()).map_err(|_| KeyPairError::NoCertificate)?;
    let (_, leaf) = X509Certificate::from_der(&leaf).map_err(|_| KeyPairError::BadCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.expose().as_bytes()).map_err(|_| KeyPairError::NoKey)?;
    let public = public_half(&key).ok_or(KeyPairError::BadKey)?;
    let spki = leaf.public_key();
    let matches = match (public, spki.parsed()) {
        (Public::Rsa { modulus }, Ok(PublicKey::RSA(rsa))) => trimmed(&modulus) == trimmed(rsa.modulus),
        (Public::Ec(Some(point)), Ok(PublicKey::EC(ec))) => point == ec.data(),
        // RFC 5915 allows an EC key without its public half. The curve's arithmetic is the TLS stack's to do.
        (Public::Ec(None), Ok(PublicKey::EC(_))) => true,
        (Public::Ed25519(public), _) if spki.algorithm.algorithm == OID_SIG_ED25519 => {
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
        (Ok(not_before), Ok(not_after)) => Ok(Leaf { not_before, not_after }),
        _ => Err(KeyPairError::BadCertificate),
    }
}

/// What is wrong with a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyPairError {
    /// No certificate in it.
    #[error("its clientCertificateData holds no certificate in PEM form")]
    NoCertificate,
    /// A certificate that is none.
    #[error("its clientCertificateData holds a certificate that cannot be read")]
    BadCertificate,
    /// No key in it.
    #[error("its clientKeyData holds no private key in PEM form")]
    NoKey,
    /// A key that is none, or of a kind nobody uses with TLS.
    #[error("its clientKeyData holds a private key that is broken or neither RSA, EC nor Ed25519")]
    BadKey,
    /// Two halves of two pairs.
    #[error("its clientKeyData is not the key of its clientCertificateData")]
    Mismatch,
}

enum Public {
    Rsa { modulus: Vec<u8> },
    Ec(Option<Vec<u8>>),
    Ed25519([u8; 32]),
}

fn public_half(key: &PrivateKeyDer<'_>) -> Option<Public> {
    match key {
        PrivateKeyDer::Pkcs1(der) => pkcs1(der.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(der) => sec1(der.secret_sec1_der()),
        // Go looks at the bytes and not at the label, and so plugins get away with the wrong label.
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            pkcs8(der).or_else(|| pkcs1(der)).or_else(|| sec1(der))
        }
        _ => None,
    }
}

/// RFC 8017: version, modulus, exponent, …
fn pkcs1(der: &[u8]) -> Option<Public> {
    let (_, sequence) = Sequence::from_der(der).ok()?;
    let (rest, _version) = Integer::from_der(&sequence.content).ok()?;
    let (rest, modulus) = Integer::from_der(rest).ok()?;
    Integer::from_der(rest).ok()?;
    Some(Public::Rsa { modulus: modulus.as_ref().to_vec() })
}

/// RFC 5915: version, private key, `[0]` curve, `[1]` public key.
fn sec1(der: &[u8]) -> Option<Public> {
    let (_, sequence) = Sequence::from_der(der).ok()?;
    let (rest, _version) = Integer::from_der(&sequence.content).ok()?;
    let (mut rest, _private) = OctetString::from_der(rest).ok()?;
    while !rest.is_empty() {
        let (after, any) = Any::from_der(rest).ok()?;
        if any.tag() == Tag(1) && any.class() == asn1_rs::Class::ContextSpecific {
            let (_, point) = BitString::from_der(any.data).ok()?;
            return Some(Public::Ec(Some(point.data.to_vec())));
        }
        rest = after;
    }
    Some(Public::Ec(None))
}

/// RFC 5958: version, algorithm, the key itself in a form of the algorithm's own.
fn pkcs8(der: &[u8]) -> Option<Public> {
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
        Some(Public::Ed25519(ed25519_dalek::SigningKey::from_bytes(&seed).verifying_key().to_bytes()))
    } else {
        None
    }
}

/// A positive ASN.1 integer may have a zero in front that says no more than that.
fn trimmed(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}
