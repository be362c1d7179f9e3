//! An RSA key that all tests share.

use std::sync::OnceLock;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// An RSA key. Generating one is slow, so all tests share it.
pub(crate) struct TestRsaKey {
    pub(crate) pem: String,
    public: Vec<u8>,
    pkcs8: Vec<u8>,
}

pub(crate) fn key() -> &'static TestRsaKey {
    static KEY: OnceLock<TestRsaKey> = OnceLock::new();
    KEY.get_or_init(|| {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let pkcs8 = pair.as_der().unwrap().as_ref().to_vec();
        let public = pair.public_key().as_ref().to_vec();
        TestRsaKey { pem: pem("PRIVATE KEY", &pkcs8), public, pkcs8 }
    })
}

pub(crate) fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

impl TestRsaKey {
    /// A self-signed certificate of this key in DER.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        let der = rcgen::KeyPair::try_from(self.pkcs8.as_slice()).unwrap();
        rcgen::CertificateParams::default().self_signed(&der).unwrap().der().to_vec()
    }

    /// Verifies the signature of a JWT and returns its header and claims.
    #[track_caller]
    pub(crate) fn verified(&self, jwt: &str) -> (Value, Value) {
        let (signed, signature) = jwt.rsplit_once('.').unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let part = |text: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        let (header, claims) = (part(header), part(claims));
        let scheme = if header["alg"] == "PS256" { &RSA_PSS_2048_8192_SHA256 } else { &RSA_PKCS1_2048_8192_SHA256 };
        let public = UnparsedPublicKey::new(scheme, &self.public);
        public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        (header, claims)
    }

    /// Whether `signature` (in base64) is a signature of `bytes` with this key.
    pub(crate) fn has_signed(&self, bytes: &str, signature: &str) -> bool {
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public);
        public.verify(bytes.as_bytes(), &STANDARD.decode(signature).unwrap()).is_ok()
    }
}
