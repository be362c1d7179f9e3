//! Authentication of requests by client certificate or bearer token.
//!
//! [`ClusterAuthenticator`] verifies certificates of a CA and signed tokens; like kube-apiserver, it checks expiry and revocation of
//! each request. [`CredentialAllowList`] accepts the tokens and users that a test names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use credlet_platform::Clock;
use jiff::Timestamp;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::VerifierBuilderError;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::ca::CertificateAuthority;
use crate::server::{RecordedRequest, tls};
use crate::token::TokenVerifier;

/// Authenticates requests. A rejected request receives a `401`.
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the user of a request. `chain` are the certificates of the client, its own first; it is empty without client
    /// certificate.
    fn authenticate(
        &self,
        request: &RecordedRequest,
        chain: &[CertificateDer<'_>],
    ) -> Result<AuthenticatedUser, AuthnFailure>;

    /// Returns whether [`authenticate`](Self::authenticate) verifies the chain. Otherwise the TLS handshake does, unless the server
    /// is set to [`ClientCertificates::Unverified`](crate::ClientCertificates::Unverified). Default: false.
    fn verifies_certificates(&self) -> bool {
        false
    }
}

impl<A: Authenticator + ?Sized> Authenticator for Arc<A> {
    fn authenticate(
        &self,
        request: &RecordedRequest,
        chain: &[CertificateDer<'_>],
    ) -> Result<AuthenticatedUser, AuthnFailure> {
        (**self).authenticate(request, chain)
    }

    fn verifies_certificates(&self) -> bool {
        (**self).verifies_certificates()
    }
}

/// The user of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedUser {
    /// User name.
    pub name: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// The credential, if the authenticator identifies it.
    pub credential: Option<CredentialId>,
}

/// Id of a credential, as in the extra attribute `authentication.kubernetes.io/credential-id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialId {
    /// The claim `jti` of a token.
    Token(String),
    /// SHA-256 digest of a certificate, in lower-case hex.
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
#[non_exhaustive]
pub enum AuthnFailure {
    /// The request has neither certificate nor token.
    NoCredential,
    /// The certificate is expired, of another CA or without common name.
    BadCertificate,
    /// The token is unknown, or its signature is invalid.
    BadToken,
    /// The token has expired.
    ExpiredToken,
    /// The token was revoked.
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

impl std::error::Error for AuthnFailure {}

/// Accepts valid certificates of a CA and, with a [`TokenVerifier`], valid tokens. The user is the common name or the subject, the
/// groups are the organizations or the claim `groups`, with `system:authenticated` added.
pub struct ClusterAuthenticator {
    certificates: Arc<dyn ClientCertVerifier>,
    tokens: Option<TokenVerifier>,
    clock: Arc<dyn Clock>,
    revoked: Mutex<HashSet<String>>,
}

impl ClusterAuthenticator {
    /// Accepts valid client certificates of this CA, by the clock of the CA.
    pub fn new(ca: &CertificateAuthority) -> Result<Self, VerifierBuilderError> {
        let certificates = tls::verifier(ca.der(), false, Arc::new(default_provider()))?;
        Ok(Self { certificates, tokens: None, clock: Arc::clone(ca.clock()), revoked: Mutex::default() })
    }

    /// Accepts also tokens that this verifier accepts.
    pub fn with_tokens(mut self, tokens: TokenVerifier) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Revokes the token with this id, the claim `jti`.
    pub fn revoke(&self, id: &str) {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    fn certificate(
        &self,
        request: &RecordedRequest,
        chain: &[CertificateDer<'_>],
    ) -> Result<AuthenticatedUser, AuthnFailure> {
        let (leaf, intermediates) = chain.split_first().ok_or(AuthnFailure::NoCredential)?;
        let since_epoch = self.clock.now().duration_since(Timestamp::UNIX_EPOCH).unsigned_abs();
        let now = UnixTime::since_unix_epoch(since_epoch);
        let verified = self.certificates.verify_client_cert(leaf, intermediates, now);
        verified.map_err(|_| AuthnFailure::BadCertificate)?;
        let peer = request.peer.as_ref().filter(|peer| !peer.common_name.is_empty());
        let peer = peer.ok_or(AuthnFailure::BadCertificate)?;
        let digest = credlet_api::hex(digest(&SHA256, leaf));
        Ok(user(&peer.common_name, &peer.organizations, CredentialId::Certificate(digest)))
    }

    fn token(&self, header: &str) -> Result<AuthenticatedUser, AuthnFailure> {
        let (scheme, token) = header.split_once(' ').ok_or(AuthnFailure::BadToken)?;
        let bearer = Some(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"));
        let claims = bearer.zip(self.tokens.as_ref()).and_then(|(token, tokens)| tokens.verify(token));
        let claims = claims.ok_or(AuthnFailure::BadToken)?;
        if self.clock.now() > claims.expires {
            return Err(AuthnFailure::ExpiredToken);
        }
        if self.revoked.lock().unwrap_or_else(PoisonError::into_inner).contains(&claims.id) {
            return Err(AuthnFailure::RevokedToken);
        }
        Ok(user(&claims.user, &claims.groups, CredentialId::Token(claims.id)))
    }
}

impl Authenticator for ClusterAuthenticator {
    /// Authenticates by certificate, else by token. A valid token suffices beside an invalid certificate.
    fn authenticate(
        &self,
        request: &RecordedRequest,
        chain: &[CertificateDer<'_>],
    ) -> Result<AuthenticatedUser, AuthnFailure> {
        self.certificate(request, chain).or_else(|failure| match request.header("authorization") {
            Some(header) => self.token(header),
            None => Err(failure),
        })
    }

    fn verifies_certificates(&self) -> bool {
        true
    }
}

impl fmt::Debug for ClusterAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAuthenticator").finish_non_exhaustive()
    }
}

fn user(name: &str, groups: &[String], credential: CredentialId) -> AuthenticatedUser {
    let groups = groups.iter().map(String::as_str).chain(["system:authenticated"]).map(str::to_owned).collect();
    AuthenticatedUser { name: name.to_owned(), groups, credential: Some(credential) }
}

/// Accepts the tokens and the users of client certificates that a test names, and every request until it names the first one.
///
/// It does not verify certificates: the TLS handshake does, by the default of
/// [`ApiServerBuilder::client_certificates`](crate::ApiServerBuilder::client_certificates).
#[derive(Default)]
pub struct CredentialAllowList(Mutex<AllowedCredentials>);

#[derive(Default)]
struct AllowedCredentials {
    restricted: bool,
    /// Accepted tokens with the name of the user.
    tokens: BTreeMap<String, String>,
    clients: BTreeSet<String>,
}

impl CredentialAllowList {
    /// Creates a list that accepts every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts this bearer token as this user.
    pub fn accept_token(&self, token: impl Into<String>, user: impl Into<String>) {
        self.restrict().tokens.insert(token.into(), user.into());
    }

    /// Rejects this token from now on.
    pub fn revoke_token(&self, token: &str) {
        self.restrict().tokens.remove(token);
    }

    /// Accepts client certificates with this common name.
    pub fn accept_client(&self, common_name: impl Into<String>) {
        self.restrict().clients.insert(common_name.into());
    }

    /// Rejects client certificates with this common name from now on.
    pub fn revoke_client(&self, common_name: &str) {
        self.restrict().clients.remove(common_name);
    }

    /// Rejects every token and certificate that was accepted before.
    pub fn revoke_all(&self) {
        let mut allowed = self.restrict();
        allowed.tokens.clear();
        allowed.clients.clear();
    }

    /// Rejects every credential that is not in the list from now on.
    fn restrict(&self) -> MutexGuard<'_, AllowedCredentials> {
        let mut allowed = self.lock();
        allowed.restricted = true;
        allowed
    }

    fn lock(&self) -> MutexGuard<'_, AllowedCredentials> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Authenticator for CredentialAllowList {
    /// In the order of kube-apiserver: a valid certificate is sufficient, whatever the token.
    fn authenticate(
        &self,
        request: &RecordedRequest,
        _: &[CertificateDer<'_>],
    ) -> Result<AuthenticatedUser, AuthnFailure> {
        let allowed = self.lock();
        let user = |name: &str, groups: &[String]| AuthenticatedUser {
            name: name.to_owned(),
            groups: groups.to_vec(),
            credential: None,
        };
        if let Some(peer) = &request.peer
            && (!allowed.restricted || allowed.clients.contains(&peer.common_name))
        {
            return Ok(user(&peer.common_name, &peer.organizations));
        }
        match request.bearer() {
            Some(token) if allowed.restricted => {
                allowed.tokens.get(token).map(|name| user(name, &[])).ok_or(AuthnFailure::BadToken)
            }
            Some(_) => Ok(user("token-user", &[])),
            None if allowed.restricted && request.peer.is_some() => Err(AuthnFailure::BadCertificate),
            None if allowed.restricted => Err(AuthnFailure::NoCredential),
            None => Ok(user("system:anonymous", &["system:unauthenticated".to_owned()])),
        }
    }
}

impl fmt::Debug for CredentialAllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.lock();
        f.debug_struct("CredentialAllowList")
            .field("restricted", &allowed.restricted)
            .field("tokens", &allowed.tokens.len())
            .field("clients", &allowed.clients)
            .finish()
    }
}
