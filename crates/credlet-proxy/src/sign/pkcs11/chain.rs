//! The certificate of a key and its intermediates.

use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;

use super::mechanism::KeyKind;
use super::token::attributes;
use super::{Pkcs11Error, der};

/// Maximum number of certificates in a chain.
const MAX_CHAIN: usize = 10;

fn invalid(reason: impl Into<String>) -> Pkcs11Error {
    Pkcs11Error::Certificate { reason: reason.into() }
}

/// Parses a PEM file: the certificate first, then its intermediates.
pub(super) fn from_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Pkcs11Error> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| invalid("is not readable as PEM"))?;
    if chain.is_empty() { Err(invalid("is missing: there is no CERTIFICATE block")) } else { Ok(chain) }
}

/// Reads the chain from the token: the certificate with the key's id, else with its label, followed by the issuers that are on the token.
/// If several match, the one with the latest `notBefore` is used, because a renewed certificate may be beside the old one.
pub(super) fn from_token(session: &Session, key: ObjectHandle) -> Result<Vec<CertificateDer<'static>>, Pkcs11Error> {
    let about = attributes(session, key, &[AttributeType::Id, AttributeType::Label])?;
    let all = certificates(session, &[])?;
    let mut leaf = None;
    for attribute in &about {
        let named = matches!(attribute, Attribute::Id(name) | Attribute::Label(name) if !name.is_empty());
        if leaf.is_none() && named {
            leaf =
                certificates(session, std::slice::from_ref(attribute))?.into_iter().max_by_key(|der| not_before(der));
        }
    }
    let leaf = leaf.ok_or_else(|| invalid("is not on the token under the key's id or label: name a file with it"))?;
    Ok(build_chain(leaf, &all))
}

/// Returns `notBefore`, or `None` if the certificate cannot be parsed.
fn not_before(der: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(certificate.validity().not_before.timestamp())
}

/// Appends the issuers of the certificate, without the root.
fn build_chain(leaf: CertificateDer<'static>, all: &[CertificateDer<'static>]) -> Vec<CertificateDer<'static>> {
    let mut chain = vec![leaf];
    while chain.len() < MAX_CHAIN {
        let next = chain.last().and_then(|last| {
            let (_, last) = X509Certificate::from_der(last).ok()?;
            all.iter().find(|der| {
                X509Certificate::from_der(der).is_ok_and(|(_, other)| {
                    other.subject() == last.issuer() && other.subject() != other.issuer() && other.is_ca()
                })
            })
        });
        match next {
            Some(next) if !chain.contains(next) => chain.push(next.clone()),
            _ => break,
        }
    }
    chain
}

fn certificates(session: &Session, more: &[Attribute]) -> Result<Vec<CertificateDer<'static>>, Pkcs11Error> {
    let wanted: Vec<_> = [Attribute::Class(ObjectClass::CERTIFICATE)].into_iter().chain(more.iter().cloned()).collect();
    let found = session.find_objects(&wanted).map_err(|e| Pkcs11Error::failed("looking for certificates", &e))?;
    let mut all = Vec::new();
    for object in found {
        let values = attributes(session, object, &[AttributeType::Value])?;
        all.extend(values.into_iter().filter_map(|value| match value {
            Attribute::Value(der) if !der.is_empty() => Some(CertificateDer::from(der)),
            _ => None,
        }));
    }
    Ok(all)
}

/// Checks that the certificate belongs to the key, if the token reveals the public key. Otherwise the handshake would fail with an
/// unspecific alert.
pub(super) fn check(
    session: &Session,
    key: ObjectHandle,
    kind: KeyKind,
    chain: &[CertificateDer<'static>],
) -> Result<(), Pkcs11Error> {
    let leaf = chain.first().ok_or_else(|| invalid("is missing"))?;
    let (_, leaf) = X509Certificate::from_der(leaf).map_err(|_| invalid("is not a certificate"))?;
    let public = leaf.public_key().parsed().map_err(|_| invalid("has an invalid public key"))?;
    let other = || invalid("does not belong to the key");
    match (kind, public) {
        (KeyKind::Rsa, PublicKey::RSA(public)) => {
            let modulus = attributes(session, key, &[AttributeType::Modulus])?;
            match modulus.first() {
                Some(Attribute::Modulus(modulus)) if plain(modulus) != plain(public.modulus) => Err(other()),
                _ => Ok(()),
            }
        }
        // x509-parser returns an Ed25519 key as unknown, with its point unchanged.
        (KeyKind::P256 | KeyKind::P384 | KeyKind::P521, PublicKey::EC(_))
        | (KeyKind::Ed25519, PublicKey::Unknown(_)) => {
            let point = &leaf.public_key().subject_public_key.data;
            let own = point_of(session, key);
            if own.is_none_or(|own| der::may_be_point(&own, point)) { Ok(()) } else { Err(other()) }
        }
        _ => Err(other()),
    }
}

fn plain(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

/// Returns the point of an EC public key, if the public key is on the token. A private key object does not contain it.
fn point_of(session: &Session, key: ObjectHandle) -> Option<Vec<u8>> {
    let id = attributes(session, key, &[AttributeType::Id]).ok()?;
    let id = id.into_iter().find(|id| matches!(id, Attribute::Id(id) if !id.is_empty()))?;
    let public = session.find_objects(&[Attribute::Class(ObjectClass::PUBLIC_KEY), id]).ok()?;
    let [public] = public[..] else { return None };
    attributes(session, public, &[AttributeType::EcPoint]).ok()?.into_iter().find_map(|point| match point {
        Attribute::EcPoint(point) => Some(point),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_pem_chain() {
        let pair = credlet_testkit::ca::TestCa::new().client("ada").issue();
        assert_eq!(from_pem(pair.cert_pem().as_bytes()).unwrap().len(), 1);
        let invalid = |pem: &[u8]| from_pem(pem).unwrap_err().to_string();
        assert!(invalid(b"").contains("is missing"));
        assert!(invalid(pair.key_pem().as_bytes()).contains("is missing"));
        assert!(invalid(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").contains("not readable"));
    }
}
