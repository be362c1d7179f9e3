//! Bearer tokens: JWTs signed with EdDSA, which the server verifies without a list of tokens.
//!
//! ```
//! use credlet_apiserver::token::{TokenClaims, TokenSigner};
//! use jiff::Timestamp;
//!
//! let signer = TokenSigner::new()?;
//! let (id, user, groups) = ("1".to_owned(), "jane".to_owned(), vec!["developers".to_owned()]);
//! let claims = TokenClaims { id, user, groups, expires: Timestamp::from_second(3600)? };
//! let token = signer.sign(&claims, Timestamp::UNIX_EPOCH);
//! assert_eq!(signer.verifier().verify(token.expose()), Some(claims));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use credlet_api::Secret;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Default of the claim `iss`.
const ISSUER: &str = "credlet-apiserver";

/// Failure to generate a key.
#[derive(Debug, thiserror::Error)]
#[error("failed to generate a key")]
#[non_exhaustive]
pub struct KeyError;

/// Signs tokens. The key is generated at the start and stays in memory.
pub struct TokenSigner {
    key: Ed25519KeyPair,
    issuer: String,
}

/// Verifies the signature of tokens.
#[derive(Clone)]
pub struct TokenVerifier(UnparsedPublicKey<Vec<u8>>);

/// Claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenClaims {
    /// The claim `jti`.
    pub id: String,
    /// The claim `sub`.
    pub user: String,
    /// The claim `groups`.
    pub groups: Vec<String>,
    /// The claim `exp`, in whole seconds.
    pub expires: Timestamp,
}

impl TokenSigner {
    /// Generates a key.
    pub fn new() -> Result<Self, KeyError> {
        let key = Ed25519KeyPair::generate().map_err(|_| KeyError)?;
        Ok(Self { key, issuer: ISSUER.to_owned() })
    }

    /// Sets the claim `iss`. Default: `credlet-apiserver`.
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = issuer.into();
        self
    }

    /// Returns a token with these claims, issued at `now`.
    pub fn sign(&self, claims: &TokenClaims, now: Timestamp) -> Secret {
        let header = json!({ "alg": "EdDSA", "typ": "JWT" });
        let claims = json!({
            "iss": self.issuer,
            "sub": claims.user,
            "groups": claims.groups,
            "jti": claims.id,
            "iat": now.as_second(),
            "exp": claims.expires.as_second(),
        });
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = BASE64.encode(self.key.sign(signed.as_bytes()));
        Secret::new(format!("{signed}.{signature}"))
    }

    /// Returns the verifier of this signer's tokens.
    pub fn verifier(&self) -> TokenVerifier {
        TokenVerifier(UnparsedPublicKey::new(&ED25519, self.key.public_key().as_ref().to_vec()))
    }
}

impl TokenVerifier {
    /// Returns the claims if the signature is valid. Does not check the expiry.
    pub fn verify(&self, token: &str) -> Option<TokenClaims> {
        let (signed, signature) = token.rsplit_once('.')?;
        self.0.verify(signed.as_bytes(), &BASE64.decode(signature).ok()?).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims: Value = serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(TokenClaims {
            id: text(&claims["jti"])?,
            user: text(&claims["sub"])?,
            groups: claims["groups"].as_array()?.iter().map(text).collect::<Option<_>>()?,
            expires: Timestamp::from_second(claims["exp"].as_i64()?).ok()?,
        })
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSigner").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> TokenClaims {
        TokenClaims {
            id: "1".into(),
            user: "ada".into(),
            groups: vec!["staff".into()],
            expires: Timestamp::from_second(5).unwrap(),
        }
    }

    #[test]
    fn reads_signed_claims() {
        let signer = TokenSigner::new().unwrap();
        let token = signer.sign(&claims(), Timestamp::UNIX_EPOCH);
        let read = signer.verifier().verify(token.expose()).unwrap();
        assert_eq!((&*read.id, &*read.user, &*read.groups[0], read.expires.as_second()), ("1", "ada", "staff", 5));
    }

    #[test]
    fn rejects_foreign_and_forged_tokens() {
        let (signer, other) = (TokenSigner::new().unwrap(), TokenSigner::new().unwrap());
        let token = signer.sign(&claims(), Timestamp::UNIX_EPOCH);
        assert!(other.verifier().verify(token.expose()).is_none());
        let [header, _, signature] = token.expose().split('.').collect::<Vec<_>>().try_into().unwrap();
        let forged = BASE64.encode(json!({ "sub": "root", "groups": ["x"], "jti": "1", "exp": 5 }).to_string());
        for text in [format!("{header}.{forged}.{signature}"), format!("{header}.{forged}."), header.into(), "".into()]
        {
            assert!(signer.verifier().verify(&text).is_none(), "{text}");
        }
    }
}
