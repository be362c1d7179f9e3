//! How a key of each kind signs: what TLS calls it, and what PKCS#11 calls it.

use aws_lc_rs::digest;
use cryptoki::error::Error as Cryptoki;
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, ObjectHandle};
use cryptoki::session::Session;
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::{der, pss};

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    P256,
    P384,
    P521,
    Rsa,
    Ed25519,
}

impl Kind {
    /// Of a curve, by its name in DER as tokens give it. Some older ones say `edwards25519` in words.
    pub(super) fn of_curve(params: &[u8]) -> Option<Self> {
        match params {
            [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07] => Some(Self::P256),
            [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22] => Some(Self::P384),
            [0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23] => Some(Self::P521),
            [0x06, 0x03, 0x2b, 0x65, 0x70] | [0x13, 0x0c, b'e', b'd', b'w', b'a', b'r', b'd', b's', b'2', ..] => {
                Some(Self::Ed25519)
            }
            _ => None,
        }
    }

    pub(super) fn algorithm(self) -> SignatureAlgorithm {
        match self {
            Self::P256 | Self::P384 | Self::P521 => SignatureAlgorithm::ECDSA,
            Self::Rsa => SignatureAlgorithm::RSA,
            Self::Ed25519 => SignatureAlgorithm::ED25519,
        }
    }

    /// What the token can sign with it, the best first. A token with neither PSS nor RSA as
    /// it is, is good for TLS 1.2 only.
    pub(super) fn schemes(self, mechanisms: &[MechanismType]) -> Vec<SignatureScheme> {
        let schemes: &[SignatureScheme] = match self {
            Self::P256 => &[SignatureScheme::ECDSA_NISTP256_SHA256],
            Self::P384 => &[SignatureScheme::ECDSA_NISTP384_SHA384],
            Self::P521 => &[SignatureScheme::ECDSA_NISTP521_SHA512],
            Self::Ed25519 => &[SignatureScheme::ED25519],
            Self::Rsa => &[
                SignatureScheme::RSA_PSS_SHA256,
                SignatureScheme::RSA_PSS_SHA384,
                SignatureScheme::RSA_PSS_SHA512,
                SignatureScheme::RSA_PKCS1_SHA256,
                SignatureScheme::RSA_PKCS1_SHA384,
                SignatureScheme::RSA_PKCS1_SHA512,
            ],
        };
        schemes.iter().copied().filter(|scheme| how(*scheme, mechanisms).is_some()).collect()
    }
}

/// Which way a token makes a signature.
enum How {
    /// Of the digest that we make.
    Digest(Mechanism<'static>, &'static digest::Algorithm),
    /// Of the digest with its name in front, as PKCS#1 wants it.
    DigestInfo(&'static digest::Algorithm),
    /// Of the whole message.
    Message(Mechanism<'static>),
    /// Of whatever it is given: the padding is ours.
    Padded(&'static digest::Algorithm),
}

/// Signs. `Ok(None)`: what came back is no signature.
pub(super) fn sign(
    session: &Session,
    key: ObjectHandle,
    scheme: SignatureScheme,
    mechanisms: &[MechanismType],
    message: &[u8],
) -> Result<Option<Vec<u8>>, Cryptoki> {
    let signature = match how(scheme, mechanisms) {
        None => return Ok(None),
        Some(How::Digest(mechanism, algorithm)) => {
            session.sign(&mechanism, key, digest::digest(algorithm, message).as_ref())
        }
        Some(How::DigestInfo(algorithm)) => session.sign(&Mechanism::RsaPkcs, key, &digest_info(algorithm, message)),
        Some(How::Message(mechanism)) => session.sign(&mechanism, key, message),
        Some(How::Padded(algorithm)) => match pss::encode(algorithm, message, &modulus(session, key)?) {
            Some(padded) => session.sign(&Mechanism::RsaX509, key, &padded),
            None => return Ok(None),
        },
    }?;
    let is_ecdsa = matches!(form(scheme), Some((Form::Ecdsa, _)));
    Ok(if is_ecdsa { der::ecdsa_signature(&signature) } else { Some(signature) })
}

/// Of an RSA key. Unlike a point of a curve, it is known of the private half too.
fn modulus(session: &Session, key: ObjectHandle) -> Result<Vec<u8>, Cryptoki> {
    let attributes = session.get_attributes(key, &[AttributeType::Modulus])?;
    let modulus = attributes.into_iter().find_map(|attribute| match attribute {
        Attribute::Modulus(modulus) => Some(modulus),
        _ => None,
    });
    Ok(modulus.unwrap_or_default())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Ecdsa,
    Pss,
    Pkcs1,
}

/// The schemes that sign a digest.
fn form(scheme: SignatureScheme) -> Option<(Form, &'static digest::Algorithm)> {
    use SignatureScheme as S;
    Some(match scheme {
        S::ECDSA_NISTP256_SHA256 => (Form::Ecdsa, &digest::SHA256),
        S::ECDSA_NISTP384_SHA384 => (Form::Ecdsa, &digest::SHA384),
        S::ECDSA_NISTP521_SHA512 => (Form::Ecdsa, &digest::SHA512),
        S::RSA_PSS_SHA256 => (Form::Pss, &digest::SHA256),
        S::RSA_PSS_SHA384 => (Form::Pss, &digest::SHA384),
        S::RSA_PSS_SHA512 => (Form::Pss, &digest::SHA512),
        S::RSA_PKCS1_SHA256 => (Form::Pkcs1, &digest::SHA256),
        S::RSA_PKCS1_SHA384 => (Form::Pkcs1, &digest::SHA384),
        S::RSA_PKCS1_SHA512 => (Form::Pkcs1, &digest::SHA512),
        _ => return None,
    })
}

/// The digest is ours wherever the token takes one: SoftHSM and many cards know ECDSA in no other way, and less goes to a
/// slow card.
fn how(scheme: SignatureScheme, mechanisms: &[MechanismType]) -> Option<How> {
    let has = |mechanism: Mechanism<'static>| mechanisms.contains(&mechanism.mechanism_type()).then_some(mechanism);
    if scheme == SignatureScheme::ED25519 {
        return has(Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Ed25519))).map(How::Message);
    }
    let (form, hash) = form(scheme)?;
    let (hash_alg, mgf, by_ecdsa, by_pkcs1) = match hash.output_len() {
        32 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256, Mechanism::EcdsaSha256, Mechanism::Sha256RsaPkcs),
        48 => (MechanismType::SHA384, PkcsMgfType::MGF1_SHA384, Mechanism::EcdsaSha384, Mechanism::Sha384RsaPkcs),
        _ => (MechanismType::SHA512, PkcsMgfType::MGF1_SHA512, Mechanism::EcdsaSha512, Mechanism::Sha512RsaPkcs),
    };
    let pss = PkcsPssParams { hash_alg, mgf, s_len: hash.output_len().try_into().ok()? };
    let by_pss = match hash.output_len() {
        32 => Mechanism::Sha256RsaPkcsPss(pss),
        48 => Mechanism::Sha384RsaPkcsPss(pss),
        _ => Mechanism::Sha512RsaPkcsPss(pss),
    };
    let (by_digest, by_message) = match form {
        Form::Ecdsa => (has(Mechanism::Ecdsa).map(|by| How::Digest(by, hash)), by_ecdsa),
        Form::Pss => (has(Mechanism::RsaPkcsPss(pss)).map(|by| How::Digest(by, hash)), by_pss),
        Form::Pkcs1 => (has(Mechanism::RsaPkcs).map(|_| How::DigestInfo(hash)), by_pkcs1),
    };
    let by_us = || has(Mechanism::RsaX509).filter(|_| form == Form::Pss).map(|_| How::Padded(hash));
    by_digest.or_else(|| has(by_message).map(How::Message)).or_else(by_us)
}

/// RFC 8017, 9.2: the digest's name in DER, and the digest.
fn digest_info(algorithm: &'static digest::Algorithm, message: &[u8]) -> Vec<u8> {
    let number = match algorithm.output_len() {
        32 => 1,
        48 => 2,
        _ => 3,
    };
    let digest = digest::digest(algorithm, message);
    // Lengths of 83 at most, in one byte each.
    let length = u8::try_from(digest.as_ref().len()).unwrap_or_default();
    let mut info = vec![0x30, 17 + length, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, number, 5, 0, 4, length];
    info.extend_from_slice(digest.as_ref());
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_token_cannot_do_is_not_offered() {
        let all = [MechanismType::RSA_PKCS_PSS, MechanismType::RSA_PKCS];
        assert_eq!(Kind::Rsa.schemes(&all).len(), 6);
        let old = Kind::Rsa.schemes(&[MechanismType::SHA256_RSA_PKCS]);
        assert_eq!(old, [SignatureScheme::RSA_PKCS1_SHA256]);
        let raw = Kind::Rsa.schemes(&[MechanismType::RSA_X_509]);
        assert_eq!(raw.first(), Some(&SignatureScheme::RSA_PSS_SHA256), "the padding is ours");
        assert_eq!(raw.len(), 3);
        assert_eq!(Kind::P256.schemes(&[MechanismType::ECDSA]), [SignatureScheme::ECDSA_NISTP256_SHA256]);
        assert_eq!(Kind::P384.schemes(&[MechanismType::ECDSA_SHA384]), [SignatureScheme::ECDSA_NISTP384_SHA384]);
        assert_eq!(Kind::P384.schemes(&[MechanismType::ECDSA_SHA256]), []);
        assert_eq!(Kind::Ed25519.schemes(&all), []);
    }

    #[test]
    fn curves_are_known_by_their_names() {
        assert_eq!(Kind::of_curve(b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"), Some(Kind::P256));
        assert_eq!(Kind::of_curve(b"\x13\x0cedwards25519"), Some(Kind::Ed25519));
        // secp256k1, whose signatures no server would take.
        assert_eq!(Kind::of_curve(b"\x06\x05\x2b\x81\x04\x00\x0a"), None);
        assert_eq!(Kind::of_curve(b""), None);
    }

    /// The three of RFC 8017's notes.
    #[test]
    fn the_name_of_a_digest_is_written_as_pkcs1_wants_it() {
        for (algorithm, wanted) in [
            (&digest::SHA256, "3031300d060960864801650304020105000420"),
            (&digest::SHA384, "3041300d060960864801650304020205000430"),
            (&digest::SHA512, "3051300d060960864801650304020305000440"),
        ] {
            let info = digest_info(algorithm, b"message");
            let (name, rest) = info.split_at(19);
            let hex: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, wanted);
            assert_eq!(rest, digest::digest(algorithm, b"message").as_ref());
        }
    }
}
