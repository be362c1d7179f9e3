//! Whether an ID token is what it says: signed by the issuer, for us, for this very login, and not too old.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::oidc::{Claims, Jwk, JwkSet, Jwt};
use credlet_api::{Secret, visible};
use jiff::Timestamp;

/// How far two clocks may be apart before a token from the future is refused: 5 minutes.
const SKEW: i64 = 300;

/// What a token must say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    /// In answer to a login. When a token is renewed, issuers leave it out or repeat the old one.
    pub(super) nonce: Option<&'a Secret>,
    /// When a token is renewed: the person must not become another one.
    pub(super) subject: Option<&'a str>,
}

/// Why an ID token is not believed. Nothing of the token is in it but names and times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Not even a token.
    #[error("it is not a JSON web token")]
    NotAToken,
    /// Everybody could have signed it so.
    #[error("it is signed with `{alg}`, which proves nothing or is not known here")]
    Algorithm {
        /// The algorithm's name, made harmless.
        alg: String,
    },
    /// It demands what we cannot give.
    #[error("it demands extensions that are not known here")]
    Critical,
    /// The issuer does not publish the key.
    #[error("it is signed with a key that the issuer does not publish")]
    UnknownKey,
    /// The signature is not by that key.
    #[error("its signature is wrong")]
    Signature,
    /// Somebody else's.
    #[error("it was issued by `{found}` and not by `{expected}`")]
    Issuer {
        /// Who should have.
        expected: String,
        /// Who did.
        found: String,
    },
    /// For somebody else.
    #[error("it is for `{found}` and not for `{expected}`")]
    Audience {
        /// Our client.
        expected: String,
        /// Theirs.
        found: String,
    },
    /// From another login.
    #[error("its nonce is not the one of this login: it may have been stolen from another")]
    Nonce,
    /// Another person.
    #[error("it names another person than before")]
    Subject,
    /// Nobody knows how long it is good.
    #[error("it does not say when it expires")]
    NoExpiry,
    /// Our clock or theirs.
    #[error("it expired {} ago by this machine's clock, although it is new", Minutes(*seconds))]
    Stale {
        /// How long ago.
        seconds: i64,
    },
    /// Our clock or theirs.
    #[error("it is good only in {} by this machine's clock", Minutes(*seconds))]
    Early {
        /// How far ahead.
        seconds: i64,
    },
}

impl TokenError {
    /// What the person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Stale { .. } | Self::Early { .. } => {
                "set this machine's clock, or ask the issuer's operator to set theirs"
            }
            Self::Issuer { .. } => "correct --oidc-issuer-url: it must be written exactly as the issuer writes it",
            Self::Audience { .. } => "correct --oidc-client-id",
            Self::Nonce | Self::Subject => "log in again; if it happens twice, tell the issuer's operator",
            _ => "tell the issuer's operator",
        }
    }
}

struct Minutes(i64);

impl std::fmt::Display for Minutes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            seconds @ ..120 => write!(f, "{seconds} s"),
            seconds @ ..7200 => write!(f, "{} min", seconds / 60),
            seconds => write!(f, "{} h", seconds / 3600),
        }
    }
}

/// The claims of a token that has just come from the issuer, if it is to be believed.
pub(super) fn verify(
    token: &Secret,
    keys: &JwkSet,
    expected: &Expected<'_>,
    now: Timestamp,
) -> Result<Claims, TokenError> {
    let jwt = Jwt::parse(token).ok_or(TokenError::NotAToken)?;
    if jwt.header.critical {
        return Err(TokenError::Critical);
    }
    signed(&jwt, keys)?;
    check(&jwt.claims, expected, now.as_second())?;
    Ok(jwt.claims)
}

fn check(claims: &Claims, expected: &Expected<'_>, now: i64) -> Result<(), TokenError> {
    if claims.iss != expected.issuer {
        let (expected, found) = (expected.issuer.to_owned(), harmless(&claims.iss));
        return Err(TokenError::Issuer { expected, found });
    }
    let audience =
        |found: &str| TokenError::Audience { expected: expected.client_id.to_owned(), found: harmless(found) };
    if !claims.aud.iter().any(|aud| aud == expected.client_id) {
        return Err(audience(&claims.aud.join(" ")));
    }
    if !claims.azp.is_empty() && claims.azp != expected.client_id {
        return Err(audience(&claims.azp));
    }
    let nonce = Secret::new(claims.nonce.as_str());
    if expected.nonce.is_some_and(|expected| *expected != nonce) {
        return Err(TokenError::Nonce);
    }
    if expected.subject.is_some_and(|subject| subject != claims.sub) {
        return Err(TokenError::Subject);
    }
    let early = claims.nbf.into_iter().chain(claims.iat).max().map_or(0, |since| since.saturating_sub(now));
    if early > SKEW {
        return Err(TokenError::Early { seconds: early });
    }
    match claims.exp {
        None => Err(TokenError::NoExpiry),
        Some(exp) if exp <= now => Err(TokenError::Stale { seconds: now.saturating_sub(exp) }),
        Some(_) => Ok(()),
    }
}

/// Foreign text, short and safe to show.
fn harmless(text: &str) -> String {
    visible(text).chars().filter(|c| !c.is_control()).take(100).collect()
}

/// The kinds of signature that only the issuer can make. HMAC is not among them, nor is `none`: with those, whoever
/// knows the public key or nothing at all could sign.
enum Kind {
    Rsa(&'static RsaParameters),
    Ec(&'static str, usize, &'static EcdsaVerificationAlgorithm),
    Ed25519,
}

impl Kind {
    fn of(alg: &str) -> Option<Self> {
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

    /// `None`: the key is of another kind, or none.
    fn verify(&self, key: &Jwk, message: &[u8], signature: &[u8]) -> Option<bool> {
        let number =
            |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok().filter(|bytes| !bytes.is_empty());
        let good = match self {
            Self::Rsa(parameters) if key.kty == "RSA" => {
                let (n, e) = (number(&key.n)?, number(&key.e)?);
                RsaPublicKeyComponents { n: unpadded(&n), e: unpadded(&e) }.verify(parameters, message, signature)
            }
            Self::Ec(curve, length, algorithm) if key.kty == "EC" && key.crv == *curve => {
                let mut point = vec![4];
                for coordinate in [number(&key.x)?, number(&key.y)?] {
                    // Some leave out leading zeros.
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
        Some(good.is_ok())
    }
}

/// The library takes no number that begins with zeros, and some issuers write them.
fn unpadded(number: &[u8]) -> &[u8] {
    &number[number.iter().position(|byte| *byte != 0).unwrap_or(number.len())..]
}

fn signed(jwt: &Jwt<'_>, keys: &JwkSet) -> Result<(), TokenError> {
    let header = &jwt.header;
    let kind = Kind::of(&header.alg).ok_or_else(|| TokenError::Algorithm { alg: harmless(&header.alg) })?;
    let fits = |key: &&Jwk| {
        (header.kid.is_empty() || key.kid == header.kid)
            && (key.usage.is_empty() || key.usage == "sig")
            && (key.alg.is_empty() || key.alg == header.alg)
    };
    let tried = keys.keys.iter().filter(fits).filter_map(|key| kind.verify(key, jwt.signed.as_bytes(), &jwt.signature));
    match tried.reduce(|one, other| one || other) {
        Some(true) => Ok(()),
        Some(false) => Err(TokenError::Signature),
        None => Err(TokenError::UnknownKey),
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

    /// Whether the key vouches for the token, and does not for another one, nor under the name of another algorithm.
    fn proves(alg: &str, key: Jwk, sign: impl Fn(&[u8]) -> Vec<u8>) {
        let judged = |token: &Secret, key: Jwk| {
            let keys = JwkSet { keys: vec![Jwk { kty: "oct".into(), ..Jwk::default() }, key] };
            let expected = Expected { issuer: "https://id", client_id: "kube", nonce: None, subject: None };
            verify(token, &keys, &expected, Timestamp::from_second(1000).unwrap()).map(drop)
        };
        assert_eq!(judged(&token(alg, &sign), key.clone()), Ok(()), "{alg}");
        let other = token(alg, |_| sign(b"something else"));
        assert_eq!(judged(&other, key.clone()), Err(TokenError::Signature), "{alg}");
        let reserved = Jwk { alg: "RS384".into(), ..key.clone() };
        assert_eq!(judged(&token(alg, &sign), reserved), Err(TokenError::UnknownKey), "{alg}");
        let for_encryption = Jwk { usage: "enc".into(), ..key.clone() };
        assert_eq!(judged(&token(alg, &sign), for_encryption), Err(TokenError::UnknownKey), "{alg}");
        for weak in ["none", "None", "HS256", "HS512", ""] {
            let named = TokenError::Algorithm { alg: weak.to_owned() };
            assert_eq!(judged(&token(weak, &sign), key.clone()), Err(named));
        }
    }

    #[test]
    fn elliptic_curves_prove() {
        let curve = |alg: &str, crv: &str, length: usize, signing: &'static EcdsaSigningAlgorithm| {
            let pair = EcdsaKeyPair::generate(signing).unwrap();
            let (x, y) = pair.public_key().as_ref()[1..].split_at(length);
            let key = Jwk { kty: "EC".into(), crv: crv.into(), x: part(x), y: part(y), ..Jwk::default() };
            proves(alg, key, |bytes| pair.sign(&SystemRandom::new(), bytes).unwrap().as_ref().to_vec());
        };
        curve("ES256", "P-256", 32, &ECDSA_P256_SHA256_FIXED_SIGNING);
        curve("ES384", "P-384", 48, &ECDSA_P384_SHA384_FIXED_SIGNING);
        curve("ES512", "P-521", 66, &ECDSA_P521_SHA512_FIXED_SIGNING);
        let pair = Ed25519KeyPair::generate().unwrap();
        let x = part(pair.public_key());
        let key = Jwk { kty: "OKP".into(), crv: "Ed25519".into(), x, ..Jwk::default() };
        proves("EdDSA", key, |bytes| pair.sign(bytes).as_ref().to_vec());
    }

    #[test]
    fn rsa_proves_also_with_a_zero_before_its_number() {
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
        proves("RS256", key.clone(), |bytes| sign(&RSA_PKCS1_SHA256, bytes));
        proves("PS512", key, |bytes| sign(&RSA_PSS_SHA512, bytes));
    }
}
