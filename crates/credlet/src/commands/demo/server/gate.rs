//! Who is asking: certificates and tokens, judged at every request as a real API server does.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use credlet_core::Clock;
use http::header::{AUTHORIZATION, HeaderMap};
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::commands::demo::token::Verifier;

/// Lets in whoever shows a certificate of the cluster's authority or a token of its issuer, while it is good.
pub(in crate::commands::demo) struct Gate {
    pub(super) certificates: Arc<dyn ClientCertVerifier>,
    pub(super) tokens: Verifier,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) revoked: Mutex<HashSet<String>>,
}

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands::demo) struct User {
    pub(in crate::commands::demo) name: String,
    pub(super) groups: Vec<String>,
    pub(in crate::commands::demo) credential: Credential,
}

/// What somebody was let in with: its id, in the words of `authentication.kubernetes.io/credential-id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands::demo) enum Credential {
    Token(String),
    Certificate(String),
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => write!(f, "JTI={id}"),
            Self::Certificate(digest) => write!(f, "X509SHA256={digest}"),
        }
    }
}

/// Why somebody was not let in. The client is told no more than `401`; this is for the server's own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::demo) enum Refusal {
    NoCredential,
    BadCertificate,
    BadToken,
    ExpiredToken,
    RevokedToken,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCredential => "no credential",
            Self::BadCertificate => "a certificate that has expired or is not ours",
            Self::BadToken => "a token that is not ours",
            Self::ExpiredToken => "an expired token",
            Self::RevokedToken => "a revoked token",
        })
    }
}

impl Gate {
    /// A good certificate is enough, whatever the token; a bad one can be made up for by a good token.
    pub(super) fn admit(&self, chain: Option<&[CertificateDer<'_>]>, headers: &HeaderMap) -> Result<User, Refusal> {
        let by_certificate = chain.map_or(Err(Refusal::NoCredential), |chain| self.certificate(chain));
        by_certificate.or_else(|refusal| match headers.get(AUTHORIZATION) {
            Some(header) => self.token(header.to_str().unwrap_or_default()),
            None => Err(refusal),
        })
    }

    /// From now on the token of this id is refused.
    pub(in crate::commands::demo) fn revoke(&self, id: &str) {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    fn certificate(&self, chain: &[CertificateDer<'_>]) -> Result<User, Refusal> {
        let (leaf, intermediates) = chain.split_first().ok_or(Refusal::NoCredential)?;
        let since_epoch = self.clock.now().duration_since(jiff::Timestamp::UNIX_EPOCH).unsigned_abs();
        let now = UnixTime::since_unix_epoch(since_epoch);
        let verified = self.certificates.verify_client_cert(leaf, intermediates, now);
        verified.map_err(|_| Refusal::BadCertificate)?;
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| Refusal::BadCertificate)?;
        let subject = parsed.subject();
        let name = subject.iter_common_name().find_map(|name| name.as_str().ok()).ok_or(Refusal::BadCertificate)?;
        let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
        let digest: String = digest(&SHA256, leaf).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(user(name, groups, Credential::Certificate(digest)))
    }

    fn token(&self, header: &str) -> Result<User, Refusal> {
        let (scheme, token) = header.split_once(' ').ok_or(Refusal::BadToken)?;
        let ours = Some(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"));
        let claims = ours.and_then(|token| self.tokens.read(token)).ok_or(Refusal::BadToken)?;
        if self.clock.now() > claims.expires {
            return Err(Refusal::ExpiredToken);
        }
        if self.revoked.lock().unwrap_or_else(PoisonError::into_inner).contains(&claims.id) {
            return Err(Refusal::RevokedToken);
        }
        Ok(user(&claims.user, [&*claims.group], Credential::Token(claims.id)))
    }
}

fn user<'a>(name: &str, groups: impl IntoIterator<Item = &'a str>, credential: Credential) -> User {
    let groups = groups.into_iter().chain(["system:authenticated"]).map(str::to_owned).collect();
    User { name: name.to_owned(), groups, credential }
}
