//! The `auth-provider` `oidc` of client-go: an ID token as the bearer token, refreshed with a refresh token.
//!
//! [`OidcAuthProvider`] returns the ID token of the kubeconfig until it expires. Then it reads the file again, because another
//! process may have refreshed the token, refreshes the tokens at the issuer (`refresh`, with the requests of `credlet-oidc`) and
//! saves them to the file (`token_store`).
//!
//! Unlike client-go it also refreshes a token that the API server rejected, and processes that share a file take turns, so that
//! a single-use refresh token is sent once.

mod error;
mod refresh;
mod settings;
mod token_store;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::oidc;
use credlet_exec::{FetchReason, Platform};
use jiff::Timestamp;

pub use self::error::OidcError;
use self::settings::{OidcTokens, ProviderSettings};
use self::token_store::{KubeconfigTokenStore, SaveOutcome};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{AuthProvider, Sourced, ValueOrigin};
pub use credlet_oidc::OidcEndpoint;

/// Timeout for both requests to the issuer together.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);

/// A token that expires sooner is refreshed first, as in client-go, to allow for clock skew.
const EXPIRY_LEEWAY: Duration = Duration::from_secs(10);

/// OIDC login of one user.
pub(super) struct OidcAuthProvider {
    state: Arc<OidcState>,
}

struct OidcState {
    settings: ProviderSettings,
    /// `None` if the kubeconfig is not a file.
    store: Option<KubeconfigTokenStore>,
    crypto: CryptoBackend,
    platform: Platform,
    /// Whether this issuer requires the client secret in the form body instead of the header.
    secret_in_body: AtomicBool,
    tokens: Mutex<TokenState>,
}

#[derive(Clone)]
struct TokenState {
    tokens: OidcTokens,
    /// The tokens in the file when it was last read or written. If the file has others, another process has changed them.
    in_file: OidcTokens,
}

impl OidcAuthProvider {
    pub(super) fn new(provider: &Sourced<AuthProvider>, user: &str, crypto: CryptoBackend, platform: Platform) -> Self {
        let settings = provider.config.clone();
        let tokens = OidcTokens::from_config(&settings);
        let store = match &provider.origin {
            ValueOrigin::File { path, .. } => {
                Some(KubeconfigTokenStore { path: Arc::clone(path), user: user.to_owned(), settings: settings.clone() })
            }
            _ => None,
        };
        let token_state = Mutex::new(TokenState { in_file: tokens.clone(), tokens });
        let secret_in_body = AtomicBool::new(false);
        Self {
            state: Arc::new(OidcState {
                settings: ProviderSettings(settings),
                store,
                crypto,
                platform,
                secret_in_body,
                tokens: token_state,
            }),
        }
    }

    /// Returns an ID token and its expiry.
    pub(super) async fn fetch(&self, why: &FetchReason) -> Result<(Secret, Timestamp), OidcError> {
        let id_token = self.state.tokens().tokens.id.clone();
        if *why == FetchReason::Miss
            && let Some(expires) = self.state.valid_until(&id_token)
        {
            return Ok((id_token, expires));
        }
        // A separate task, because the request may use up the refresh token, and the new one must be saved even if the caller is
        // cancelled. Timeouts bound the task.
        let state = Arc::clone(&self.state);
        tokio::spawn(async move { state.refresh().await }).await.unwrap_or(Err(OidcError::Abandoned))
    }

    /// Returns whether there is a refresh token.
    pub(super) fn may_prefetch(&self) -> bool {
        !self.state.tokens().tokens.refresh.is_empty()
    }
}

impl OidcState {
    async fn refresh(self: Arc<Self>) -> Result<(Secret, Timestamp), OidcError> {
        let _lock = match &self.store {
            Some(store) => store.refresh_lock(&*self.platform.clock, REFRESH_TIMEOUT + REFRESH_TIMEOUT / 2).await,
            None => None,
        };
        if let Some(found) = self.reload().await {
            return Ok(found);
        }
        let refresh_token = self.tokens().tokens.refresh.clone();
        let refreshed = tokio::select! {
            refreshed = refresh::refresh(&self.settings, &refresh_token, &self.secret_in_body, &self.crypto, &self.platform) => refreshed,
            () = self.platform.clock.sleep(REFRESH_TIMEOUT) => Err(OidcError::TimedOut),
        };
        let (refreshed, host) = match refreshed {
            Ok(refreshed) => refreshed,
            // A process that does not take the lock, such as kubectl, may have used the token first.
            Err(error @ OidcError::RefreshToken { .. }) => return self.reload().await.ok_or(error),
            Err(error) => return Err(error),
        };
        let or = |new: Secret, old: Secret| if new.is_empty() { old } else { new };
        let has_id = !refreshed.id_token.is_empty();
        let tokens = {
            let mut current = self.tokens();
            current.tokens.id = or(refreshed.id_token, current.tokens.id.clone());
            current.tokens.refresh = or(refreshed.refresh_token, refresh_token.clone());
            current.tokens.clone()
        };
        self.save(tokens.refresh != refresh_token).await;
        if !has_id {
            return Err(OidcError::NoIdToken { host });
        }
        let id = self.tokens().tokens.id.clone();
        // A token without an expiry serves the waiting callers and is then refreshed again.
        let expires = oidc::jwt_expiry(&id).unwrap_or_else(|| self.platform.clock.now());
        Ok((id, expires))
    }

    /// Takes over tokens that another process has saved. Returns the ID token if it is new and valid.
    async fn reload(self: &Arc<Self>) -> Option<(Secret, Timestamp)> {
        let state = Arc::clone(self);
        let found = blocking(move || state.store.as_ref()?.read_tokens()).await??;
        let mut current = self.tokens();
        if found == current.in_file {
            return None;
        }
        let before = std::mem::replace(&mut current.tokens, found.clone()).id;
        current.in_file = found.clone();
        drop(current);
        let expires = self.valid_until(&found.id).filter(|_| found.id != before)?;
        tracing::debug!("using tokens that another process has saved to the kubeconfig");
        Some((found.id, expires))
    }

    /// Saves the tokens to the file. If that fails, logs a warning; this process continues with the tokens.
    async fn save(self: &Arc<Self>, rotated: bool) {
        let Some(store) = &self.store else {
            if rotated {
                tracing::warn!(
                    "cannot save the new refresh-token of the issuer: the kubeconfig is not a file; log in again when this program \
                     exits"
                );
            }
            return;
        };
        let state = Arc::clone(self);
        let saved = blocking(move || {
            let TokenState { tokens, in_file } = state.tokens().clone();
            state.store.as_ref().map(|store| store.save(&in_file, &tokens, |id| state.valid_until(id).is_some()))
        });
        match saved.await.flatten() {
            Some(Ok(SaveOutcome::Saved(now))) => self.tokens().in_file = now,
            Some(Ok(SaveOutcome::Superseded(now))) => *self.tokens() = TokenState { tokens: now.clone(), in_file: now },
            Some(Err(problem)) if rotated => tracing::warn!(
                "{}: the file {problem}; the issuer has replaced the refresh-token, so log in again when this program exits",
                store.location(Some(&problem))
            ),
            Some(Err(problem)) => {
                tracing::warn!("{}: the file {problem}; its id-token is expired", store.location(Some(&problem)));
            }
            None => tracing::warn!("{}: failed to save the refreshed tokens", store.location(None)),
        }
    }

    /// Returns the expiry of the token if it is valid for longer than [`EXPIRY_LEEWAY`].
    fn valid_until(&self, id: &Secret) -> Option<Timestamp> {
        let earliest = self.platform.clock.now().saturating_add(EXPIRY_LEEWAY).ok()?;
        oidc::jwt_expiry(id).filter(|expires| earliest < *expires)
    }

    fn tokens(&self) -> MutexGuard<'_, TokenState> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs file operations on a blocking thread. They complete even if the caller is cancelled.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

impl fmt::Debug for OidcAuthProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.state.store.as_ref().map(|store| &store.path);
        f.debug_struct("AuthProvider").field("name", &"oidc").field("file", &file).finish()
    }
}
