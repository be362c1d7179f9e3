//! Authenticates requests by client certificate or bearer token. Like kube-apiserver, it checks expiry and revocation per request.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use credlet_exec::Clock;
use http::header::{AUTHORIZATION, HeaderMap};
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::commands::demo::token::TokenVerifier;

/// Accepts valid certificates of the cluster's CA and valid tokens of its issuer.
pub(in crate::commands::demo) struct RequestAuthenticator {
    pub(super) certificates: Arc<dyn ClientCertVerifier>,
    pub(super) tokens: TokenVerifier,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) revoked: Mutex<HashSet<String>>,
}

/// The user of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands::demo) struct AuthenticatedUser {
    pub(in crate::commands::demo) name: String,
    pub(super) groups: Vec<String>,
    pub(in crate::commands::demo) credential: CredentialId,
}

/// Id of the credential, as in the extra attribute `authentication.kubernetes.io/credential-id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands::demo) enum CredentialId {
    Token(String),
    Certificate(String),
}

impl fmt::Display for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => write!(f, "JTI={id}"),
            Self::Certificate(digest) => write!(f, "X509SHA256={digest}"),
        }
    }
}

/// Reason for a `401`. The client does not receive it; it is for the log of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::demo) enum AuthnFailure {
    NoCredential,
    BadCertificate,
    BadToken,
    ExpiredToken,
    RevokedToken,
}

impl fmt::Display for AuthnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCredential => "no credential",
            Self::BadCertificate => "expired or unknown certificate",
            Self::BadToken => "invalid token",
            Self::ExpiredToken => "expired token",
            Self::RevokedToken => "revoked token",
        })
    }
}

impl RequestAuthenticator {
    /// Authenticates by certificate, else by token. A valid token suffices beside an invalid certificate.
    pub(super) fn authenticate(
        &self,
        chain: Option<&[CertificateDer<'_>]>,
        headers: &HeaderMap,
    ) -> Result<AuthenticatedUser, AuthnFailure> {
        let by_certificate = chain.map_or(Err(AuthnFailure::NoCredential), |chain| self.certificate(chain));
        by_certificate.or_else(|refusal| match headers.get(AUTHORIZATION) {
            Some(header) => self.token(header.to_str().unwrap_or_default()),
            None => Err(refusal),
        })
    }

    /// Revokes the token with this id.
    pub(in crate::commands::demo) fn revoke(&self, id: &str) {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    fn certificate(&self, chain: &[CertificateDer<'_>]) -> Result<AuthenticatedUser, AuthnFailure> {
        let (leaf, intermediates) = chain.split_first().ok_or(AuthnFailure::NoCredential)?;
        let since_epoch = self.clock.now().duration_since(jiff::Timestamp::UNIX_EPOCH).unsigned_abs();
        let now = UnixTime::since_unix_epoch(since_epoch);
        let verified = self.certificates.verify_client_cert(leaf, intermediates, now);
        verified.map_err(|_| AuthnFailure::BadCertificate)?;
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| AuthnFailure::BadCertificate)?;
        let subject = parsed.subject();
        let name =
            subject.iter_common_name().find_map(|name| name.as_str().ok()).ok_or(AuthnFailure::BadCertificate)?;
        let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
        let digest = credlet_api::hex(digest(&SHA256, leaf));
        Ok(user(name, groups, CredentialId::Certificate(digest)))
    }

    fn token(&self, header: &str) -> Result<AuthenticatedUser, AuthnFailure> {
        let (scheme, token) = header.split_once(' ').ok_or(AuthnFailure::BadToken)?;
        let ours = Some(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"));
        let claims = ours.and_then(|token| self.tokens.verify(token)).ok_or(AuthnFailure::BadToken)?;
        if self.clock.now() > claims.expires {
            return Err(AuthnFailure::ExpiredToken);
        }
        if self.revoked.lock().unwrap_or_else(PoisonError::into_inner).contains(&claims.id) {
            return Err(AuthnFailure::RevokedToken);
        }
        Ok(user(&claims.user, [&*claims.group], CredentialId::Token(claims.id)))
    }
}

fn user<'a>(name: &str, groups: impl IntoIterator<Item = &'a str>, credential: CredentialId) -> AuthenticatedUser {
    let groups = groups.into_iter().chain(["system:authenticated"]).map(str::to_owned).collect();
    AuthenticatedUser { name: name.to_owned(), groups, credential }
}
