//! RSA signatures and signed JWTs, for assertions (RFC 7523).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Map, Value};

use super::TokenError;

/// An RSA private key. `Debug` does not show it.
pub(crate) struct RsaSigningKey {
    pair: RsaKeyPair,
    /// Description for errors.
    what: String,
}

/// A signature algorithm of RFC 7518.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JwsAlgorithm {
    Rs256,
    Ps256,
}

impl RsaSigningKey {
    /// Parses the first private key of a PEM text. `what` describes the key in errors.
    pub(crate) fn from_pem(pem: &[u8], what: &str) -> Result<Self, TokenError> {
        let invalid = |reason: &str| TokenError::invalid_setting(what, reason);
        let encrypted = ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED"];
        let has = |text: &str| pem.windows(text.len()).any(|window| window == text.as_bytes());
        if encrypted.into_iter().any(has) {
            return Err(
                invalid("encrypted keys are not supported").with_hint("decrypt it: `openssl pkey -in KEY -out NEW`")
            );
        }
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| invalid("not a private key in PEM format"))?;
        let pair = match &key {
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(invalid("not an RSA key")),
        };
        let pair = pair.map_err(|_| invalid("not an RSA key of at least 2048 bits"))?;
        Ok(Self { pair, what: what.to_owned() })
    }

    /// Returns the signature of `bytes`.
    pub(crate) fn sign(&self, algorithm: JwsAlgorithm, bytes: &[u8]) -> Result<Vec<u8>, TokenError> {
        let scheme = match algorithm {
            JwsAlgorithm::Rs256 => &RSA_PKCS1_SHA256,
            JwsAlgorithm::Ps256 => &RSA_PSS_SHA256,
        };
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let signed = self.pair.sign(scheme, &SystemRandom::new(), bytes, &mut signature);
        signed.map(|()| signature).map_err(|_| TokenError::Sign { what: self.what.clone() })
    }

    /// Returns a signed JWT. `header` has the header fields besides `alg` and `typ`.
    pub(crate) fn sign_jwt(
        &self,
        algorithm: JwsAlgorithm,
        mut header: Map<String, Value>,
        claims: &Value,
    ) -> Result<Secret, TokenError> {
        let alg = match algorithm {
            JwsAlgorithm::Rs256 => "RS256",
            JwsAlgorithm::Ps256 => "PS256",
        };
        header.insert("alg".into(), alg.into());
        header.insert("typ".into(), "JWT".into());
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&Value::Object(header)), part(claims));
        let signature = self.sign(algorithm, signed.as_bytes())?;
        Ok(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

impl std::fmt::Debug for RsaSigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RsaSigningKey").field("what", &self.what).finish_non_exhaustive()
    }
}
