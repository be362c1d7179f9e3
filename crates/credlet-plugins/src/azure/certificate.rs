//! A service principal's certificate: its key signs who we are.

use std::path::Path;

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use credlet_api::Secret;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Map, json};

use crate::oauth::{self, Algorithm, Error, RsaKey};

const WHAT: &str = "the client certificate";

/// How long an assertion is good, in seconds.
const LIFE: i64 = 600;

/// A certificate with its key and its chain.
#[derive(Debug)]
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: RsaKey,
}

impl ClientCertificate {
    /// From a PEM file, as [`from_pem`](Self::from_pem) reads it.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        Self::from_pem(&oauth::bytes(path, WHAT)?)
    }

    /// From PEM text that holds the certificate, its issuers if they are to be sent, and the key, in any order.
    ///
    /// # Errors
    /// When it does not.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::config(WHAT, reason);
        // A PFX file begins as all DER does, with a sequence whose length takes more than a byte.
        if matches!(pem, [0x30, 0x80..=0xff, ..]) {
            return Err(wrong("is not in PEM form")
                .advise("make it so: `openssl pkcs12 -in CERTIFICATE.pfx -nodes -out CERTIFICATE.pem`"));
        }
        let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| wrong("is not in PEM form"))?;
        if chain.is_empty() {
            return Err(wrong("holds no certificate"));
        }
        let key = RsaKey::from_pem(pem, "the key of the client certificate")?;
        Ok(Self { chain, key })
    }

    /// By which Entra knows it: SHA-256 over the certificate.
    pub(super) fn thumbprint(&self) -> String {
        let first = self.chain.first().map(AsRef::as_ref).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, first))
    }

    /// Says who we are to the token endpoint at `url`.
    pub(super) fn assertion(&self, client_id: &str, url: &str, now: Timestamp) -> Result<Secret, Error> {
        let mut unique = [0; 16];
        rand::fill(&mut unique).map_err(|_| Error::Sign { what: WHAT.into() })?;
        let chain: Vec<_> = self.chain.iter().map(|certificate| STANDARD.encode(certificate)).collect();
        let header = Map::from_iter([
            ("x5t#S256".to_owned(), self.thumbprint().into()),
            // For tenants that know the issuer and the subject, and not this very certificate.
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
            "exp": now + LIFE,
        });
        self.key.jwt(Algorithm::Ps256, header, &claims)
    }
}
