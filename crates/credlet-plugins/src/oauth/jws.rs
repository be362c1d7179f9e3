//! Signing with an RSA key: assertions (RFC 7523) and anything else.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Map, Value};

use super::Error;

/// A key that signs. It is never shown.
pub(crate) struct RsaKey {
    pair: RsaKeyPair,
    /// Whose, for messages.
    what: String,
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Ps256,
}

impl RsaKey {
    /// The first key in a PEM file. `what` it is, for messages.
    pub(crate) fn from_pem(pem: &[u8], what: &str) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::config(what, reason);
        let encrypted = ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED"];
        let has = |text: &str| pem.windows(text.len()).any(|window| window == text.as_bytes());
        if encrypted.into_iter().any(has) {
            return Err(wrong("is encrypted").advise("decrypt it: `openssl pkey -in KEY -out NEW`"));
        }
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| wrong("is not a private key in PEM form"))?;
        let pair = match &key {
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(wrong("is not an RSA key")),
        };
        let pair = pair.map_err(|_| wrong("is not an RSA key of 2048 bits or more"))?;
        Ok(Self { pair, what: what.to_owned() })
    }

    /// The signature of these bytes.
    pub(crate) fn sign(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let scheme = match algorithm {
            Algorithm::Rs256 => &RSA_PKCS1_SHA256,
            Algorithm::Ps256 => &RSA_PSS_SHA256,
        };
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let signed = self.pair.sign(scheme, &SystemRandom::new(), bytes, &mut signature);
        signed.map(|()| signature).map_err(|_| Error::Sign { what: self.what.clone() })
    }

    /// A JSON web token with these claims; `header` is what it has besides `alg` and `typ`.
    pub(crate) fn jwt(
        &self,
        algorithm: Algorithm,
        mut header: Map<String, Value>,
        claims: &Value,
    ) -> Result<Secret, Error> {
        let alg = match algorithm {
            Algorithm::Rs256 => "RS256",
            Algorithm::Ps256 => "PS256",
        };
        header.insert("alg".into(), alg.into());
        header.insert("typ".into(), "JWT".into());
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&Value::Object(header)), part(claims));
        let signature = self.sign(algorithm, signed.as_bytes())?;
        Ok(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

impl std::fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RsaKey").field("what", &self.what).finish_non_exhaustive()
    }
}
