//! Bearer tokens of the demo: JWTs signed with EdDSA, which the server verifies without a list of tokens.

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use credlet_api::Secret;
use jiff::Timestamp;
use serde_json::{Value, json};

const ISSUER: &str = "credlet demo";

/// Signs tokens. The key is generated at the start and stays in memory.
pub(super) struct TokenSigner(Ed25519KeyPair);

/// Verifies the signature of tokens.
pub(super) struct TokenVerifier(UnparsedPublicKey<Vec<u8>>);

/// Claims of a token.
#[derive(Debug)]
pub(super) struct TokenClaims {
    /// The claim `jti`.
    pub(super) id: String,
    pub(super) user: String,
    pub(super) group: String,
    /// In whole seconds.
    pub(super) expires: Timestamp,
}

impl TokenSigner {
    pub(super) fn new() -> Result<Self, Unspecified> {
        Ed25519KeyPair::generate().map(Self)
    }

    pub(super) fn sign(&self, claims: &TokenClaims, now: Timestamp) -> Secret {
        let header = json!({ "alg": "EdDSA", "typ": "JWT" });
        let claims = json!({
            "iss": ISSUER,
            "sub": claims.user,
            "groups": [claims.group],
            "jti": claims.id,
            "iat": now.as_second(),
            "exp": claims.expires.as_second(),
        });
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = BASE64.encode(self.0.sign(signed.as_bytes()));
        Secret::new(format!("{signed}.{signature}"))
    }

    pub(super) fn verifier(&self) -> TokenVerifier {
        TokenVerifier(UnparsedPublicKey::new(&ED25519, self.0.public_key().as_ref().to_vec()))
    }
}

impl TokenVerifier {
    /// Returns the claims if the signature is valid. Does not check the expiry.
    pub(super) fn verify(&self, token: &str) -> Option<TokenClaims> {
        let (signed, signature) = token.rsplit_once('.')?;
        self.0.verify(signed.as_bytes(), &BASE64.decode(signature).ok()?).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims: Value = serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(TokenClaims {
            id: text(&claims["jti"])?,
            user: text(&claims["sub"])?,
            group: text(&claims["groups"][0])?,
            expires: Timestamp::from_second(claims["exp"].as_i64()?).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> TokenClaims {
        TokenClaims {
            id: "1".into(),
            user: "ada".into(),
            group: "staff".into(),
            expires: Timestamp::from_second(5).unwrap(),
        }
    }

    #[test]
    fn reads_signed_claims() {
        let signer = TokenSigner::new().unwrap();
        let token = signer.sign(&claims(), Timestamp::UNIX_EPOCH);
        let read = signer.verifier().verify(token.expose()).unwrap();
        assert_eq!((&*read.id, &*read.user, &*read.group, read.expires.as_second()), ("1", "ada", "staff", 5));
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
