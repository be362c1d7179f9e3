//! The certificate of a key, with those that lead to its authority.

use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;

use super::mechanism::Kind;
use super::token::attributes;
use super::{Pkcs11Error, der};

/// Longer ones no server takes.
const LONGEST: usize = 10;

fn wrong(reason: impl Into<String>) -> Pkcs11Error {
    Pkcs11Error::Certificate { reason: reason.into() }
}

/// From a file's text: the certificate first, then its intermediates.
pub(super) fn from_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Pkcs11Error> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| wrong("is not readable as PEM"))?;
    if chain.is_empty() { Err(wrong("is missing: there is no CERTIFICATE block")) } else { Ok(chain) }
}

/// From the token: the one with the key's id, or else with its label, and then those that signed it, as far as they are
/// there too. Of several the newest is meant: whoever renews a certificate may leave the old one where it is.
pub(super) fn from_token(session: &Session, key: ObjectHandle) -> Result<Vec<CertificateDer<'static>>, Pkcs11Error> {
    let about = attributes(session, key, &[AttributeType::Id, AttributeType::Label])?;
    let all = certificates(session, &[])?;
    let mut leaf = None;
    for attribute in &about {
        let named = matches!(attribute, Attribute::Id(name) | Attribute::Label(name) if !name.is_empty());
        if leaf.is_none() && named {
            leaf = certificates(session, std::slice::from_ref(attribute))?.into_iter().max_by_key(|der| begins(der));
        }
    }
    let leaf = leaf.ok_or_else(|| wrong("is not on the token under the key's id or label: name a file with it"))?;
    Ok(up_from(leaf, &all))
}

/// Since when a certificate is good. What is none comes first.
fn begins(der: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(certificate.validity().not_before.timestamp())
}

/// A chain without the root, which servers have themselves.
fn up_from(leaf: CertificateDer<'static>, all: &[CertificateDer<'static>]) -> Vec<CertificateDer<'static>> {
    let mut chain = vec![leaf];
    while chain.len() < LONGEST {
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

/// That certificate and key belong together, as far as the token tells. A server would refuse the handshake otherwise,
/// with a word that helps nobody.
pub(super) fn check(
    session: &Session,
    key: ObjectHandle,
    kind: Kind,
    chain: &[CertificateDer<'static>],
) -> Result<(), Pkcs11Error> {
    let leaf = chain.first().ok_or_else(|| wrong("is missing"))?;
    let (_, leaf) = X509Certificate::from_der(leaf).map_err(|_| wrong("is not a certificate"))?;
    let public = leaf.public_key().parsed().map_err(|_| wrong("has no public key that we can read"))?;
    let other = || wrong("does not belong to the key");
    match (kind, public) {
        (Kind::Rsa, PublicKey::RSA(public)) => {
            let modulus = attributes(session, key, &[AttributeType::Modulus])?;
            match modulus.first() {
                Some(Attribute::Modulus(modulus)) if plain(modulus) != plain(public.modulus) => Err(other()),
                _ => Ok(()),
            }
        }
        // The parser has no word for Ed25519, and leaves its point as it is.
        (Kind::P256 | Kind::P384 | Kind::P521, PublicKey::EC(_)) | (Kind::Ed25519, PublicKey::Unknown(_)) => {
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

/// The public half of an elliptic key, if it is on the token. A private key does not tell it.
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
    fn a_chain_from_a_file_is_read_or_refused() {
        let pair = credlet_testkit::ca::Ca::new().client("ada").issue();
        assert_eq!(from_pem(pair.cert_pem().as_bytes()).unwrap().len(), 1);
        let wrong = |pem: &[u8]| from_pem(pem).unwrap_err().to_string();
        assert!(wrong(b"").contains("is missing"));
        assert!(wrong(pair.key_pem().as_bytes()).contains("is missing"));
        assert!(wrong(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").contains("not readable"));
    }
}
