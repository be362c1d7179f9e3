//! Client assertions of a service principal, signed with the key of its certificate.

use std::path::Path;

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use credlet_api::Secret;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Map, json};

use crate::oauth::{self, JwsAlgorithm, RsaSigningKey, TokenError};

const WHAT: &str = "client certificate";

/// Lifetime of an assertion in seconds.
const LIFETIME: i64 = 600;

/// A certificate chain with the key of its first certificate.
#[derive(Debug)]
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: RsaSigningKey,
}

impl ClientCertificate {
    /// Reads a PEM file; see [`from_pem`](Self::from_pem).
    ///
    /// # Errors
    /// When the file cannot be read, or [`from_pem`](Self::from_pem) fails.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        Self::from_pem(&oauth::read_file(path, WHAT, oauth::FILE_LIMIT)?)
    }

    /// Parses PEM text with the certificate, optionally its issuers, and an RSA key, in any order.
    ///
    /// # Errors
    /// When the certificate or the key is missing or cannot be parsed.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TokenError> {
        let invalid = |reason: &str| TokenError::invalid_setting(WHAT, reason);
        // A PFX file is DER: it begins with a sequence in the long form of the length.
        if matches!(pem, [0x30, 0x80..=0xff, ..]) {
            return Err(invalid("not in PEM format")
                .with_hint("convert it: `openssl pkcs12 -in CERTIFICATE.pfx -nodes -out CERTIFICATE.pem`"));
        }
        let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| invalid("not in PEM format"))?;
        if chain.is_empty() {
            return Err(invalid("no certificate found"));
        }
        let key = RsaSigningKey::from_pem(pem, "key of the client certificate")?;
        Ok(Self { chain, key })
    }

    /// The SHA-256 thumbprint, by which Entra ID identifies the certificate.
    pub(super) fn thumbprint(&self) -> String {
        let first = self.chain.first().map(AsRef::as_ref).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, first))
    }

    /// A client assertion for the token endpoint at `url`.
    pub(super) fn assertion(&self, client_id: &str, url: &str, now: Timestamp) -> Result<Secret, TokenError> {
        let mut unique = [0; 16];
        rand::fill(&mut unique).map_err(|_| TokenError::Sign { what: WHAT.into() })?;
        let chain: Vec<_> = self.chain.iter().map(|certificate| STANDARD.encode(certificate)).collect();
        let header = Map::from_iter([
            ("x5t#S256".to_owned(), self.thumbprint().into()),
            // For applications that trust subject and issuer instead of one certificate.
            ("x5c".to_owned(), chain.into()),
        ]);
        let now = now.as_second();
        let claims = json!({
            "aud": url,
            "iss": client_id,
            "sub": client_id,
            "jti": URL_SAFE_NO_PAD.encode(unique),
            "iat": now,
            "nbf": now,
            "exp": now + LIFETIME,
        });
        self.key.sign_jwt(JwsAlgorithm::Ps256, header, &claims)
    }
}
