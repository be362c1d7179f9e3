//! Maps signature schemes of TLS to mechanisms of PKCS#11.

use aws_lc_rs::digest;
use cryptoki::error::Error as Cryptoki;
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, ObjectHandle};
use cryptoki::session::Session;
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::{der, pss};

/// Type of a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    P256,
    P384,
    P521,
    Rsa,
    Ed25519,
}

impl KeyKind {
    /// Returns the kind for `CKA_EC_PARAMS`: the OID of the curve, or the name `edwards25519` from older tokens.
    pub(super) fn from_ec_params(params: &[u8]) -> Option<Self> {
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

    /// Returns the schemes that the token supports, in order of preference. An RSA key without PSS and raw RSA supports TLS 1.2 only.
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
        schemes.iter().copied().filter(|scheme| select_method(*scheme, mechanisms).is_some()).collect()
    }
}

/// Input and mechanism of a signature.
enum SigningMethod {
    /// The token signs a digest.
    Digest(Mechanism<'static>, &'static digest::Algorithm),
    /// The token signs a `DigestInfo` with PKCS#1 v1.5 padding.
    DigestInfo(&'static digest::Algorithm),
    /// The token signs the message.
    Message(Mechanism<'static>),
    /// The token applies raw RSA to a block with PSS padding.
    Padded(&'static digest::Algorithm),
}

/// Signs the message. Returns `Ok(None)` if the token returned an invalid signature.
pub(super) fn sign(
    session: &Session,
    key: ObjectHandle,
    scheme: SignatureScheme,
    mechanisms: &[MechanismType],
    message: &[u8],
) -> Result<Option<Vec<u8>>, Cryptoki> {
    let signature = match select_method(scheme, mechanisms) {
        None => return Ok(None),
        Some(SigningMethod::Digest(mechanism, algorithm)) => {
            session.sign(&mechanism, key, digest::digest(algorithm, message).as_ref())
        }
        Some(SigningMethod::DigestInfo(algorithm)) => {
            session.sign(&Mechanism::RsaPkcs, key, &digest_info(algorithm, message))
        }
        Some(SigningMethod::Message(mechanism)) => session.sign(&mechanism, key, message),
        Some(SigningMethod::Padded(algorithm)) => match pss::encode(algorithm, message, &modulus(session, key)?) {
            Some(padded) => session.sign(&Mechanism::RsaX509, key, &padded),
            None => return Ok(None),
        },
    }?;
    let is_ecdsa = matches!(form(scheme), Some((SignatureForm::Ecdsa, _)));
    Ok(if is_ecdsa { der::ecdsa_signature(&signature) } else { Some(signature) })
}

/// Returns the modulus of an RSA key, which the private key object contains too.
fn modulus(session: &Session, key: ObjectHandle) -> Result<Vec<u8>, Cryptoki> {
    let attributes = session.get_attributes(key, &[AttributeType::Modulus])?;
    let modulus = attributes.into_iter().find_map(|attribute| match attribute {
        Attribute::Modulus(modulus) => Some(modulus),
        _ => None,
    });
    Ok(modulus.unwrap_or_default())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SignatureForm {
    Ecdsa,
    Pss,
    Pkcs1,
}

/// Returns form and digest of a scheme, or `None` for schemes that sign the message itself.
fn form(scheme: SignatureScheme) -> Option<(SignatureForm, &'static digest::Algorithm)> {
    use SignatureScheme as S;
    Some(match scheme {
        S::ECDSA_NISTP256_SHA256 => (SignatureForm::Ecdsa, &digest::SHA256),
        S::ECDSA_NISTP384_SHA384 => (SignatureForm::Ecdsa, &digest::SHA384),
        S::ECDSA_NISTP521_SHA512 => (SignatureForm::Ecdsa, &digest::SHA512),
        S::RSA_PSS_SHA256 => (SignatureForm::Pss, &digest::SHA256),
        S::RSA_PSS_SHA384 => (SignatureForm::Pss, &digest::SHA384),
        S::RSA_PSS_SHA512 => (SignatureForm::Pss, &digest::SHA512),
        S::RSA_PKCS1_SHA256 => (SignatureForm::Pkcs1, &digest::SHA256),
        S::RSA_PKCS1_SHA384 => (SignatureForm::Pkcs1, &digest::SHA384),
        S::RSA_PKCS1_SHA512 => (SignatureForm::Pkcs1, &digest::SHA512),
        _ => return None,
    })
}

/// Selects a method that the token supports. Signing a digest is preferred: SoftHSM and many cards support ECDSA only in this way, and
/// less data is sent to a slow card.
fn select_method(scheme: SignatureScheme, mechanisms: &[MechanismType]) -> Option<SigningMethod> {
    let has = |mechanism: Mechanism<'static>| mechanisms.contains(&mechanism.mechanism_type()).then_some(mechanism);
    if scheme == SignatureScheme::ED25519 {
        return has(Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Ed25519))).map(SigningMethod::Message);
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
        SignatureForm::Ecdsa => (has(Mechanism::Ecdsa).map(|by| SigningMethod::Digest(by, hash)), by_ecdsa),
        SignatureForm::Pss => (has(Mechanism::RsaPkcsPss(pss)).map(|by| SigningMethod::Digest(by, hash)), by_pss),
        SignatureForm::Pkcs1 => (has(Mechanism::RsaPkcs).map(|_| SigningMethod::DigestInfo(hash)), by_pkcs1),
    };
    let by_us = || has(Mechanism::RsaX509).filter(|_| form == SignatureForm::Pss).map(|_| SigningMethod::Padded(hash));
    by_digest.or_else(|| has(by_message).map(SigningMethod::Message)).or_else(by_us)
}

/// Returns the `DigestInfo` of RFC 8017, section 9.2.
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
    fn offers_only_supported_schemes() {
        let all = [MechanismType::RSA_PKCS_PSS, MechanismType::RSA_PKCS];
        assert_eq!(KeyKind::Rsa.schemes(&all).len(), 6);
        let old = KeyKind::Rsa.schemes(&[MechanismType::SHA256_RSA_PKCS]);
        assert_eq!(old, [SignatureScheme::RSA_PKCS1_SHA256]);
        let raw = KeyKind::Rsa.schemes(&[MechanismType::RSA_X_509]);
        assert_eq!(raw.first(), Some(&SignatureScheme::RSA_PSS_SHA256), "with PSS padding in software");
        assert_eq!(raw.len(), 3);
        assert_eq!(KeyKind::P256.schemes(&[MechanismType::ECDSA]), [SignatureScheme::ECDSA_NISTP256_SHA256]);
        assert_eq!(KeyKind::P384.schemes(&[MechanismType::ECDSA_SHA384]), [SignatureScheme::ECDSA_NISTP384_SHA384]);
        assert_eq!(KeyKind::P384.schemes(&[MechanismType::ECDSA_SHA256]), []);
        assert_eq!(KeyKind::Ed25519.schemes(&all), []);
    }

    #[test]
    fn recognises_curves() {
        assert_eq!(KeyKind::from_ec_params(b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"), Some(KeyKind::P256));
        assert_eq!(KeyKind::from_ec_params(b"\x13\x0cedwards25519"), Some(KeyKind::Ed25519));
        // secp256k1, which TLS does not support.
        assert_eq!(KeyKind::from_ec_params(b"\x06\x05\x2b\x81\x04\x00\x0a"), None);
        assert_eq!(KeyKind::from_ec_params(b""), None);
    }

    /// The prefixes of RFC 8017, section 9.2, note 1.
    #[test]
    fn writes_digest_info() {
        for (algorithm, wanted) in [
            (&digest::SHA256, "3031300d060960864801650304020105000420"),
            (&digest::SHA384, "3041300d060960864801650304020205000430"),
            (&digest::SHA512, "3051300d060960864801650304020305000440"),
        ] {
            let info = digest_info(algorithm, b"message");
            let (name, rest) = info.split_at(19);
            let hex = credlet_api::hex(name);
            assert_eq!(hex, wanted);
            assert_eq!(rest, digest::digest(algorithm, b"message").as_ref());
        }
    }
}
