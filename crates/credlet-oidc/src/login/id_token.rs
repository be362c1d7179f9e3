//! Verification of ID tokens: signature, issuer, audience, nonce, subject and times (OpenID Connect Core section 3.1.3.7).

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::oidc::{IdTokenClaims, Jwk, JwkSet, Jwt};
use credlet_api::{Secret, escape_control_chars};
use jiff::Timestamp;

/// Maximum clock skew in seconds for tokens from the future.
const MAX_SKEW: i64 = 300;

/// Claims that a token must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedClaims<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    /// Nonce of the login. `None` for a refresh, where issuers omit or repeat the old one.
    pub(super) nonce: Option<&'a Secret>,
    /// Subject of the login. For a refresh: it must not change.
    pub(super) subject: Option<&'a str>,
}

/// An ID token was rejected. Contains names and times of the token only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdTokenError {
    /// The token is not a JWT.
    #[error("not a JSON web token")]
    Malformed,
    /// The algorithm is unknown or does not authenticate the issuer, such as `none` and `HS256`.
    #[error("unsupported signature algorithm `{alg}`")]
    UnsupportedAlgorithm {
        /// Escaped name of the algorithm.
        alg: String,
    },
    /// The header has `crit`.
    #[error("unsupported critical extensions")]
    CriticalExtension,
    /// The issuer does not publish the key.
    #[error("unknown signing key: the issuer does not publish it")]
    UnknownKey,
    /// The signature does not match.
    #[error("invalid signature")]
    InvalidSignature,
    /// `iss` is another issuer.
    #[error("issuer mismatch: it was issued by `{found}`, not by `{expected}`")]
    IssuerMismatch {
        /// The configured issuer.
        expected: String,
        /// The `iss` claim.
        found: String,
    },
    /// `aud` or `azp` is another client.
    #[error("audience mismatch: it is for `{found}`, not for `{expected}`")]
    AudienceMismatch {
        /// The configured client id.
        expected: String,
        /// The `aud` or `azp` claim.
        found: String,
    },
    /// `nonce` is that of another login: the token may have been injected.
    #[error("nonce mismatch: the token is not of this login")]
    NonceMismatch,
    /// `sub` has changed by a refresh.
    #[error("subject mismatch: the refreshed token is for another user")]
    SubjectMismatch,
    /// `exp` is missing.
    #[error("missing expiry")]
    MissingExpiry,
    /// A new token is expired: the local clock or that of the issuer is wrong.
    #[error("already expired {} ago according to the local clock", RoughDuration(*seconds))]
    Expired {
        /// Seconds since the expiry.
        seconds: i64,
    },
    /// `nbf` or `iat` is in the future: the local clock or that of the issuer is wrong.
    #[error("not valid before {} from now according to the local clock", RoughDuration(*seconds))]
    NotYetValid {
        /// Seconds until the token is valid.
        seconds: i64,
    },
}

impl IdTokenError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Expired { .. } | Self::NotYetValid { .. } => {
                "set this machine's clock, or ask the issuer's operator to set theirs"
            }
            Self::IssuerMismatch { .. } => "correct --oidc-issuer-url: it must match the issuer's own spelling exactly",
            Self::AudienceMismatch { .. } => "correct --oidc-client-id",
            Self::NonceMismatch | Self::SubjectMismatch => {
                "log in again; if the error persists, contact the issuer's operator"
            }
            _ => "contact the issuer's operator",
        }
    }
}

struct RoughDuration(i64);

impl std::fmt::Display for RoughDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            seconds @ ..120 => write!(f, "{seconds} s"),
            seconds @ ..7200 => write!(f, "{} min", seconds / 60),
            seconds => write!(f, "{} h", seconds / 3600),
        }
    }
}

/// Verifies a token that the issuer has just sent, and returns its claims.
pub(super) fn verify(
    token: &Secret,
    keys: &JwkSet,
    expected: &ExpectedClaims<'_>,
    now: Timestamp,
) -> Result<IdTokenClaims, IdTokenError> {
    let jwt = Jwt::parse(token).ok_or(IdTokenError::Malformed)?;
    if jwt.header.critical {
        return Err(IdTokenError::CriticalExtension);
    }
    verify_signature(&jwt, keys)?;
    check_claims(&jwt.claims, expected, now.as_second())?;
    Ok(jwt.claims)
}

fn check_claims(claims: &IdTokenClaims, expected: &ExpectedClaims<'_>, now: i64) -> Result<(), IdTokenError> {
    if claims.iss != expected.issuer {
        let (expected, found) = (expected.issuer.to_owned(), display_text(&claims.iss));
        return Err(IdTokenError::IssuerMismatch { expected, found });
    }
    let audience = |found: &str| IdTokenError::AudienceMismatch {
        expected: expected.client_id.to_owned(),
        found: display_text(found),
    };
    if !claims.aud.iter().any(|aud| aud == expected.client_id) {
        return Err(audience(&claims.aud.join(" ")));
    }
    if !claims.azp.is_empty() && claims.azp != expected.client_id {
        return Err(audience(&claims.azp));
    }
    let nonce = Secret::new(claims.nonce.as_str());
    if expected.nonce.is_some_and(|expected| *expected != nonce) {
        return Err(IdTokenError::NonceMismatch);
    }
    if expected.subject.is_some_and(|subject| subject != claims.sub) {
        return Err(IdTokenError::SubjectMismatch);
    }
    let early = claims.nbf.into_iter().chain(claims.iat).max().map_or(0, |since| since.saturating_sub(now));
    if early > MAX_SKEW {
        return Err(IdTokenError::NotYetValid { seconds: early });
    }
    match claims.exp {
        None => Err(IdTokenError::MissingExpiry),
        Some(exp) if exp <= now => Err(IdTokenError::Expired { seconds: now.saturating_sub(exp) }),
        Some(_) => Ok(()),
    }
}

/// Escapes and shortens a claim for error messages.
fn display_text(text: &str) -> String {
    escape_control_chars(text).chars().filter(|c| !c.is_control()).take(100).collect()
}

/// Supported algorithms: those with a private key of the issuer. `none` and HMAC are rejected (RFC 8725 sections 3.1 and 3.2).
enum SignatureAlgorithm {
    Rsa(&'static RsaParameters),
    Ec(&'static str, usize, &'static EcdsaVerificationAlgorithm),
    Ed25519,
}

impl SignatureAlgorithm {
    fn from_name(alg: &str) -> Option<Self> {
        Some(match alg {
            "RS256" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Self::Rsa(&RSA_PSS_2048_8192_SHA256),
            "PS384" => Self::Rsa(&RSA_PSS_2048_8192_SHA384),
            "PS512" => Self::Rsa(&RSA_PSS_2048_8192_SHA512),
            "ES256" => Self::Ec("P-256", 32, &ECDSA_P256_SHA256_FIXED),
            "ES384" => Self::Ec("P-384", 48, &ECDSA_P384_SHA384_FIXED),
            "ES512" => Self::Ec("P-521", 66, &ECDSA_P521_SHA512_FIXED),
            "EdDSA" | "Ed25519" => Self::Ed25519,
            _ => return None,
        })
    }

    /// Whether the signature is valid. `None`: the key is invalid or of another type.
    fn verify(&self, key: &Jwk, message: &[u8], signature: &[u8]) -> Option<bool> {
        let number =
            |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok().filter(|bytes| !bytes.is_empty());
        let verified = match self {
            Self::Rsa(parameters) if key.kty == "RSA" => {
                let (n, e) = (number(&key.n)?, number(&key.e)?);
                RsaPublicKeyComponents { n: unpadded(&n), e: unpadded(&e) }.verify(parameters, message, signature)
            }
            Self::Ec(curve, length, algorithm) if key.kty == "EC" && key.crv == *curve => {
                let mut point = vec![4];
                for coordinate in [number(&key.x)?, number(&key.y)?] {
                    // Some issuers omit leading zeros.
                    point.resize(point.len() + length.checked_sub(coordinate.len())?, 0);
                    point.extend(coordinate);
                }
                UnparsedPublicKey::new(*algorithm, point).verify(message, signature)
            }
            Self::Ed25519 if key.kty == "OKP" && key.crv == "Ed25519" => {
                UnparsedPublicKey::new(&ED25519, number(&key.x)?).verify(message, signature)
            }
            _ => return None,
        };
        Some(verified.is_ok())
    }
}

/// Strips leading zeros, which some issuers write and aws-lc rejects.
fn unpadded(number: &[u8]) -> &[u8] {
    &number[number.iter().position(|byte| *byte != 0).unwrap_or(number.len())..]
}

fn verify_signature(jwt: &Jwt<'_>, keys: &JwkSet) -> Result<(), IdTokenError> {
    let header = &jwt.header;
    let kind = SignatureAlgorithm::from_name(&header.alg)
        .ok_or_else(|| IdTokenError::UnsupportedAlgorithm { alg: display_text(&header.alg) })?;
    let fits = |key: &&Jwk| {
        (header.kid.is_empty() || key.kid == header.kid)
            && (key.usage.is_empty() || key.usage == "sig")
            && (key.alg.is_empty() || key.alg == header.alg)
    };
    let tried = keys.keys.iter().filter(fits).filter_map(|key| kind.verify(key, jwt.signed.as_bytes(), &jwt.signature));
    match tried.reduce(|one, other| one || other) {
        Some(true) => Ok(()),
        Some(false) => Err(IdTokenError::InvalidSignature),
        None => Err(IdTokenError::UnknownKey),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
        EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA512,
        RsaEncoding, RsaKeyPair,
    };

    use super::*;

    fn part(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn token(alg: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Secret {
        let claims = r#"{"iss":"https://id","aud":"kube","exp":2000,"sub":"1"}"#;
        let signed = format!("{}.{}", part(format!(r#"{{"alg":"{alg}"}}"#)), part(claims));
        let signature = sign(signed.as_bytes());
        Secret::new(format!("{signed}.{}", part(signature)))
    }

    /// Asserts that `key` verifies the token, and neither another token nor another algorithm.
    fn assert_verifies(alg: &str, key: Jwk, sign: impl Fn(&[u8]) -> Vec<u8>) {
        let verified = |token: &Secret, key: Jwk| {
            let keys = JwkSet { keys: vec![Jwk { kty: "oct".into(), ..Jwk::default() }, key] };
            let expected = ExpectedClaims { issuer: "https://id", client_id: "kube", nonce: None, subject: None };
            verify(token, &keys, &expected, Timestamp::from_second(1000).unwrap()).map(drop)
        };
        assert_eq!(verified(&token(alg, &sign), key.clone()), Ok(()), "{alg}");
        let other = token(alg, |_| sign(b"something else"));
        assert_eq!(verified(&other, key.clone()), Err(IdTokenError::InvalidSignature), "{alg}");
        let reserved = Jwk { alg: "RS384".into(), ..key.clone() };
        assert_eq!(verified(&token(alg, &sign), reserved), Err(IdTokenError::UnknownKey), "{alg}");
        let for_encryption = Jwk { usage: "enc".into(), ..key.clone() };
        assert_eq!(verified(&token(alg, &sign), for_encryption), Err(IdTokenError::UnknownKey), "{alg}");
        for weak in ["none", "None", "HS256", "HS512", ""] {
            let named = IdTokenError::UnsupportedAlgorithm { alg: weak.to_owned() };
            assert_eq!(verified(&token(weak, &sign), key.clone()), Err(named));
        }
    }

    #[test]
    fn verifies_elliptic_curve_signatures() {
        let curve = |alg: &str, crv: &str, length: usize, signing: &'static EcdsaSigningAlgorithm| {
            let pair = EcdsaKeyPair::generate(signing).unwrap();
            let (x, y) = pair.public_key().as_ref()[1..].split_at(length);
            let key = Jwk { kty: "EC".into(), crv: crv.into(), x: part(x), y: part(y), ..Jwk::default() };
            assert_verifies(alg, key, |bytes| pair.sign(&SystemRandom::new(), bytes).unwrap().as_ref().to_vec());
        };
        curve("ES256", "P-256", 32, &ECDSA_P256_SHA256_FIXED_SIGNING);
        curve("ES384", "P-384", 48, &ECDSA_P384_SHA384_FIXED_SIGNING);
        curve("ES512", "P-521", 66, &ECDSA_P521_SHA512_FIXED_SIGNING);
        let pair = Ed25519KeyPair::generate().unwrap();
        let x = part(pair.public_key());
        let key = Jwk { kty: "OKP".into(), crv: "Ed25519".into(), x, ..Jwk::default() };
        assert_verifies("EdDSA", key, |bytes| pair.sign(bytes).as_ref().to_vec());
    }

    #[test]
    fn verifies_rsa_with_zero_padded_modulus() {
        let pair = RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        // SEQUENCE, INTEGER of 257 bytes of which the first is 0, INTEGER 65537.
        let der = pair.public_key().as_ref();
        assert_eq!((der.len(), &der[4..8], &der[265..]), (270, [2, 130, 1, 1].as_slice(), [2, 3, 1, 0, 1].as_slice()));
        let key = Jwk { kty: "RSA".into(), n: part(&der[8..265]), e: part([1, 0, 1]), ..Jwk::default() };
        let sign = |encoding: &'static dyn RsaEncoding, bytes: &[u8]| {
            let mut signature = vec![0; 256];
            pair.sign(encoding, &SystemRandom::new(), bytes, &mut signature).unwrap();
            signature
        };
        assert_verifies("RS256", key.clone(), |bytes| sign(&RSA_PKCS1_SHA256, bytes));
        assert_verifies("PS512", key, |bytes| sign(&RSA_PSS_SHA512, bytes));
    }
}
