//! Signed ID tokens, valid or with a fault.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{FakeIssuer, IssuerFault};

#[derive(Debug)]
pub(super) struct SigningKeys {
    published: EcdsaKeyPair,
    /// Not in the key set.
    other: EcdsaKeyPair,
}

impl SigningKeys {
    pub(super) fn generate() -> Self {
        let key = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Self { published: key(), other: key() }
    }

    /// The JSON Web Key Set.
    pub(super) fn jwks(&self) -> Value {
        let point = self.published.public_key().as_ref();
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "alg": "ES256",
                         "x": number(&point[1..33]), "y": number(&point[33..])}]})
    }
}

impl FakeIssuer {
    pub(super) fn id_token(&self, nonce: Option<String>, fault: IssuerFault) -> String {
        let (lifetime, ahead, account) = {
            let state = self.state();
            (state.lifetime.unwrap_or(3600), state.ahead, state.account.clone())
        };
        let now = Timestamp::now().as_second() + ahead;
        let pick = |wanted: IssuerFault, wrong: &'static str, right: String| {
            if fault == wanted { wrong.into() } else { right }
        };
        let exp = if fault == IssuerFault::Expired { now - 3600 } else { now + lifetime };
        let iat = if fault == IssuerFault::NotYet { now + 3600 } else { now };
        let mut claims = json!({
            "iss": pick(IssuerFault::Issuer, "https://evil.example", self.url().to_owned()),
            "aud": [pick(IssuerFault::Audience, "another", "kube".into()), "third"],
            "azp": pick(IssuerFault::Azp, "another", "kube".into()),
            "sub": pick(IssuerFault::OtherSubject, "mallory", "ada".into()),
            "email": account.unwrap_or_else(|| "ada@example.test".into()),
            "iat": iat, "exp": exp,
        });
        if let Some(nonce) = nonce {
            claims["nonce"] = pick(IssuerFault::Nonce, "another", nonce).into();
        }
        let alg = pick(IssuerFault::AlgNone, "none", pick(IssuerFault::Hmac, "HS256", "ES256".into()));
        let header = json!({"alg": alg, "kid": "one"}).to_string();
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", part(&header), part(&claims.to_string()));
        let keys = &self.shared.keys;
        let key = if fault == IssuerFault::OtherKey { &keys.other } else { &keys.published };
        let signature = match fault {
            IssuerFault::AlgNone => Vec::new(),
            // Signed with the public key.
            IssuerFault::Hmac => {
                let public_key = keys.published.public_key().as_ref();
                let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, public_key);
                aws_lc_rs::hmac::sign(&key, signed.as_bytes()).as_ref().to_vec()
            }
            _ => key.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature").as_ref().to_vec(),
        };
        let claims =
            if fault == IssuerFault::Changed { claims.to_string().replace("ada@", "eve@") } else { claims.to_string() };
        let token = format!("{}.{}.{}", part(&header), part(&claims), URL_SAFE_NO_PAD.encode(signature));
        self.shared.watch.adopt("id token", &token);
        if let Some((_, signature)) = token.rsplit_once('.').filter(|(_, signature)| signature.len() > 24) {
            self.shared.watch.adopt("signature", signature);
        }
        token
    }
}
