//! Sources of credentials: exec plugin, token file, OIDC `auth-provider`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credlet_api::Secret;
use credlet_exec::{
    CertificateValidity, Clock, Credential, ExecPlugin, FetchReason, FetchedValue, PluginEvent, PluginObserver, Source,
};
use http::HeaderValue;

use super::oidc::{OidcAuthProvider, OidcError};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{ConfigProblem, TokenFile};

/// Credential with its `Authorization` header and TLS identity. Equal if the plugin's credentials are equal.
#[derive(Clone, Debug)]
pub struct PreparedCredential {
    authorization: Option<HeaderValue>,
    identity: Option<credlet_http::TlsIdentity>,
    credential: Credential,
}

impl PreparedCredential {
    fn new(credential: Credential, crypto: Option<&CryptoBackend>) -> Result<Self, AuthError> {
        let authorization = credential.token.as_ref().map(bearer).transpose()?;
        let identity = match (&credential.certificate, crypto) {
            (Some(certificate), Some(crypto)) => {
                let chain = certificate.chain_pem.as_bytes();
                let identity = credlet_http::TlsIdentity::from_pem(chain, &certificate.key_pem, crypto);
                Some(identity.map_err(AuthError::Certificate)?)
            }
            _ => None,
        };
        Ok(Self { authorization, identity, credential })
    }

    /// Returns the `Authorization` header, marked as sensitive, or `None` if the credential has no token.
    pub fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// Returns the client certificate.
    pub fn identity(&self) -> Option<&credlet_http::TlsIdentity> {
        self.identity.as_ref()
    }

    /// Returns the credential as the plugin returned it.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }
}

impl PartialEq for PreparedCredential {
    fn eq(&self, other: &Self) -> bool {
        self.credential == other.credential
    }
}

/// Returns `Bearer …` as a sensitive header value, which `Debug` hides and HPACK never indexes.
pub(crate) fn bearer(token: &Secret) -> Result<HeaderValue, AuthError> {
    let text = zeroize::Zeroizing::new(format!("Bearer {}", token.expose()));
    let mut value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| AuthError::InvalidToken)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Error of a credential source. It holds no secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The exec plugin failed.
    #[error(transparent)]
    Plugin(#[from] credlet_exec::Error),
    /// The TLS provider does not support the plugin's certificate or key.
    #[error("invalid client certificate from the plugin")]
    Certificate(#[source] credlet_http::HttpError),
    /// The token has a character that is not allowed in an HTTP header.
    #[error("invalid token: contains a character that is not allowed in an HTTP header")]
    InvalidToken,
    /// The token file cannot be read or has no token.
    #[error("failed to read the token file: {0}")]
    TokenFile(ConfigProblem),
    /// The OIDC `auth-provider` failed.
    #[error(transparent)]
    Oidc(#[from] OidcError),
    /// The async runtime was shut down while the file was being read.
    #[error("failed to read the token file: the async runtime was shut down")]
    Abandoned,
}

impl AuthError {
    /// Returns hints for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Plugin(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}

/// Credential source of an [`Authenticator`](super::Authenticator). Reports certificates to the observer.
pub(super) struct AuthenticatorSource {
    kind: SourceKind,
    observer: Arc<dyn PluginObserver>,
    /// Identifies this source to the observer.
    id: u64,
    /// The reported certificate, as PEM, and its validity.
    reported: Mutex<Option<(String, CertificateValidity)>>,
}

pub(super) enum SourceKind {
    Exec { plugin: Box<ExecPlugin>, crypto: CryptoBackend },
    File { file: TokenFile, clock: Arc<dyn Clock>, last: Mutex<Option<Secret>> },
    Oidc(OidcAuthProvider),
}

impl SourceKind {
    pub(super) fn file(file: TokenFile, inline: Option<Secret>, clock: Arc<dyn Clock>) -> Self {
        Self::File { file, clock, last: Mutex::new(inline) }
    }

    async fn fetch(&self, why: &FetchReason) -> Result<FetchedValue<PreparedCredential>, AuthError> {
        match self {
            Self::Exec { plugin, crypto } => {
                let FetchedValue { value, expires } = plugin.fetch(why).await?;
                Ok(FetchedValue { value: PreparedCredential::new(value, Some(crypto))?, expires })
            }
            Self::File { file, clock, last } => read_token_file(file, &**clock, last),
            Self::Oidc(provider) => {
                let (token, expires) = provider.fetch(why).await?;
                let credential = Credential { token: Some(token), certificate: None, proxy: None };
                Ok(FetchedValue { value: PreparedCredential::new(credential, None)?, expires: Some(expires) })
            }
        }
    }
}

/// Returns the token of the file, valid for a minute. If the file cannot be read, returns the last token, valid for ten seconds.
fn read_token_file(
    file: &TokenFile,
    clock: &dyn Clock,
    last: &Mutex<Option<Secret>>,
) -> Result<FetchedValue<PreparedCredential>, AuthError> {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let (token, lifetime) = match (file.read(), &*last) {
        (Ok(token), _) => (token, Duration::from_secs(60)),
        (Err(problem), Some(last)) => {
            tracing::warn!(%problem, "failed to read the token file; using its last token");
            (last.clone(), Duration::from_secs(10))
        }
        (Err(problem), None) => return Err(AuthError::TokenFile(problem)),
    };
    *last = Some(token.clone());
    let credential = Credential { token: Some(token), certificate: None, proxy: None };
    let expires = clock.now().saturating_add(lifetime).ok();
    Ok(FetchedValue { value: PreparedCredential::new(credential, None)?, expires })
}

impl AuthenticatorSource {
    pub(super) fn new(kind: SourceKind, observer: Arc<dyn PluginObserver>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Self { kind, observer, id: NEXT_ID.fetch_add(1, Ordering::Relaxed), reported: Mutex::default() }
    }

    pub(super) fn reserve_stdin(&self, reason: &str) {
        if let SourceKind::Exec { plugin, .. } = &self.kind {
            plugin.reserve_stdin(reason);
        }
    }

    /// Reports a new or dropped certificate to the observer.
    fn report_certificate(&self, prepared: &PreparedCredential) {
        let SourceKind::Exec { plugin, .. } = &self.kind else { return };
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match (&prepared.credential.certificate, &*reported) {
            (Some(new), Some((old, _))) if new.chain_pem == *old => {}
            (Some(new), old) => {
                let now = plugin.platform().clock.now();
                let replaced_age = old.as_ref().map(|(_, leaf)| now.duration_since(leaf.not_before));
                let (holder, not_after) = (self.id, new.validity.not_after);
                self.observer.observe(&PluginEvent::CertificateHeld { holder, not_after, replaced_age });
                *reported = Some((new.chain_pem.clone(), new.validity));
            }
            (None, Some(_)) => {
                self.observer.observe(&PluginEvent::CertificateDropped { holder: self.id });
                *reported = None;
            }
            (None, None) => {}
        }
    }
}

impl Source for AuthenticatorSource {
    type Value = PreparedCredential;
    type Error = AuthError;

    async fn fetch(&self, why: &FetchReason) -> Result<FetchedValue<PreparedCredential>, AuthError> {
        let fetched = self.kind.fetch(why).await?;
        self.report_certificate(&fetched.value);
        Ok(fetched)
    }

    fn may_prefetch(&self) -> bool {
        match &self.kind {
            SourceKind::Exec { plugin, .. } => plugin.may_prefetch(),
            SourceKind::File { .. } => true,
            SourceKind::Oidc(provider) => provider.may_prefetch(),
        }
    }

    fn on_backoff(&self) {
        self.observer.observe(&PluginEvent::BackedOff);
    }

    fn cancelled(&self) -> AuthError {
        match &self.kind {
            SourceKind::Exec { plugin, .. } => plugin.cancelled().into(),
            SourceKind::File { .. } => AuthError::Abandoned,
            SourceKind::Oidc(_) => OidcError::Abandoned.into(),
        }
    }
}

impl Drop for AuthenticatorSource {
    fn drop(&mut self) {
        if self.reported.get_mut().is_ok_and(|reported| reported.is_some()) {
            self.observer.observe(&PluginEvent::CertificateDropped { holder: self.id });
        }
    }
}

impl fmt::Debug for AuthenticatorSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SourceKind::Exec { plugin, .. } => plugin.fmt(f),
            SourceKind::File { file, .. } => file.fmt(f),
            SourceKind::Oidc(provider) => provider.fmt(f),
        }
    }
}
