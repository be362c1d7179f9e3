//! Where credentials come from, made ready for requests.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credlet_api::Secret;
use credlet_core::{Clock, Credential, Event, ExecPlugin, Fetched, Leaf, Observer, Source, Why};
use http::HeaderValue;

use super::oidc::{OidcError, Provider};
use crate::conn::{self, Crypto};
use crate::kubeconfig::{Problem, TokenFile};

/// A credential, ready for requests: equal when what the plugin gave is.
#[derive(Clone, Debug)]
pub struct Issued {
    authorization: Option<HeaderValue>,
    identity: Option<conn::Identity>,
    credential: Credential,
}

impl Issued {
    fn new(credential: Credential, crypto: Option<&Crypto>) -> Result<Self, AuthError> {
        let authorization = credential.token.as_ref().map(bearer).transpose()?;
        let identity = match (&credential.certificate, crypto) {
            (Some(certificate), Some(crypto)) => {
                let chain = certificate.chain_pem.as_bytes();
                let identity = conn::Identity::from_pem(chain, &certificate.key_pem, crypto);
                Some(identity.map_err(AuthError::Certificate)?)
            }
            _ => None,
        };
        Ok(Self { authorization, identity, credential })
    }

    /// The header `Authorization`, marked as sensitive; none for a certificate alone.
    pub fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// The client certificate.
    pub fn identity(&self) -> Option<&conn::Identity> {
        self.identity.as_ref()
    }

    /// As the plugin gave it.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }
}

impl PartialEq for Issued {
    fn eq(&self, other: &Self) -> bool {
        self.credential == other.credential
    }
}

/// `Bearer …`, hidden from `Debug` and from header compression.
pub(crate) fn bearer(token: &Secret) -> Result<HeaderValue, AuthError> {
    let text = zeroize::Zeroizing::new(format!("Bearer {}", token.expose()));
    let mut value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| AuthError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why there is no credential.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The plugin gave none.
    #[error(transparent)]
    Plugin(#[from] credlet_core::Error),
    /// The plugin's certificate or key is of a kind that this program's TLS does not know.
    #[error("the plugin's certificate cannot be used")]
    Certificate(#[source] conn::Error),
    /// No header can carry the token.
    #[error("the token has a character that no header can carry")]
    Token,
    /// The token's file gave none.
    #[error("the token file gives no token: {0}")]
    TokenFile(Problem),
    /// The user's old form of login gave none.
    #[error(transparent)]
    Oidc(#[from] OidcError),
    /// The runtime in which the file was being read has been shut down.
    #[error("reading the token file was abandoned because its runtime was shut down")]
    Abandoned,
}

impl AuthError {
    /// What the person reading this can do, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Plugin(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}

/// A source of credentials that tells its observer about certificates.
pub(super) struct Issuer {
    origin: Origin,
    observer: Arc<dyn Observer>,
    /// By which the observer tells it from others.
    number: u64,
    held: Mutex<Option<(String, Leaf)>>,
}

pub(super) enum Origin {
    Exec { plugin: Box<ExecPlugin>, crypto: Crypto },
    File { file: TokenFile, clock: Arc<dyn Clock>, last: Mutex<Option<Secret>> },
    Oidc(Provider),
}

impl Origin {
    pub(super) fn file(file: TokenFile, inline: Option<Secret>, clock: Arc<dyn Clock>) -> Self {
        Self::File { file, clock, last: Mutex::new(inline) }
    }

    async fn fetch(&self, why: &Why) -> Result<Fetched<Issued>, AuthError> {
        match self {
            Self::Exec { plugin, crypto } => {
                let Fetched { value, expires } = plugin.fetch(why).await?;
                Ok(Fetched { value: Issued::new(value, Some(crypto))?, expires })
            }
            Self::File { file, clock, last } => read_again(file, &**clock, last),
            Self::Oidc(provider) => {
                let (token, expires) = provider.fetch(why).await?;
                let credential = Credential { token: Some(token), certificate: None, proxy: None };
                Ok(Fetched { value: Issued::new(credential, None)?, expires: Some(expires) })
            }
        }
    }
}

/// The token in the file for the next minute; while the file cannot be read, the last one for ten seconds more.
fn read_again(file: &TokenFile, clock: &dyn Clock, last: &Mutex<Option<Secret>>) -> Result<Fetched<Issued>, AuthError> {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let (token, lifetime) = match (file.read(), &*last) {
        (Ok(token), _) => (token, Duration::from_secs(60)),
        (Err(problem), Some(last)) => {
            tracing::warn!(%problem, "the token file cannot be read again; its last token is used");
            (last.clone(), Duration::from_secs(10))
        }
        (Err(problem), None) => return Err(AuthError::TokenFile(problem)),
    };
    *last = Some(token.clone());
    let credential = Credential { token: Some(token), certificate: None, proxy: None };
    let expires = clock.now().saturating_add(lifetime).ok();
    Ok(Fetched { value: Issued::new(credential, None)?, expires })
}

impl Issuer {
    pub(super) fn new(origin: Origin, observer: Arc<dyn Observer>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self { origin, observer, number: NUMBERS.fetch_add(1, Ordering::Relaxed), held: Mutex::default() }
    }

    pub(super) fn reserve_stdin(&self, reason: &str) {
        if let Origin::Exec { plugin, .. } = &self.origin {
            plugin.reserve_stdin(reason);
        }
    }

    /// Tells the observer what has changed.
    fn note(&self, issued: &Issued) {
        let Origin::Exec { plugin, .. } = &self.origin else { return };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match (&issued.credential.certificate, &*held) {
            (Some(new), Some((old, _))) if new.chain_pem == *old => {}
            (Some(new), old) => {
                let now = plugin.world().clock.now();
                let replaced_age = old.as_ref().map(|(_, leaf)| now.duration_since(leaf.not_before));
                let (holder, not_after) = (self.number, new.leaf.not_after);
                self.observer.observe(&Event::CertificateHeld { holder, not_after, replaced_age });
                *held = Some((new.chain_pem.clone(), new.leaf));
            }
            (None, Some(_)) => {
                self.observer.observe(&Event::CertificateDropped { holder: self.number });
                *held = None;
            }
            (None, None) => {}
        }
    }
}

impl Source for Issuer {
    type Value = Issued;
    type Error = AuthError;

    async fn fetch(&self, why: &Why) -> Result<Fetched<Issued>, AuthError> {
        let fetched = self.origin.fetch(why).await?;
        self.note(&fetched.value);
        Ok(fetched)
    }

    fn may_run_ahead(&self) -> bool {
        match &self.origin {
            Origin::Exec { plugin, .. } => plugin.may_run_ahead(),
            Origin::File { .. } => true,
            Origin::Oidc(provider) => provider.may_run_ahead(),
        }
    }

    fn backed_off(&self) {
        self.observer.observe(&Event::BackedOff);
    }

    fn abandoned(&self) -> AuthError {
        match &self.origin {
            Origin::Exec { plugin, .. } => plugin.abandoned().into(),
            Origin::File { .. } => AuthError::Abandoned,
            Origin::Oidc(_) => OidcError::Abandoned.into(),
        }
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        if self.held.get_mut().is_ok_and(|held| held.is_some()) {
            self.observer.observe(&Event::CertificateDropped { holder: self.number });
        }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Exec { plugin, .. } => plugin.fmt(f),
            Origin::File { file, .. } => file.fmt(f),
            Origin::Oidc(provider) => provider.fmt(f),
        }
    }
}
