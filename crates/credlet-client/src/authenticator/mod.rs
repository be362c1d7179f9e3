//! Credentials that are refreshed, shared by all clients with the same configuration.
//!
//! [`AuthenticatorRegistry`] returns one [`Authenticator`] for equal configurations. An authenticator caches the credential of
//! its source (exec plugin, token file or OIDC `auth-provider`) in a [`RefreshingCache`], which runs the source once for all
//! waiting callers, refreshes ahead of expiry and backs off after failures. Each credential is returned as a
//! [`PreparedCredential`], with header and TLS identity ready for requests.

mod oidc;
mod registry;
pub(crate) mod source;

use std::fmt;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_api::exec::FailedResponse;
use credlet_exec::{CachedValue, Clock, PluginEvent, PluginObserver, RefreshPolicy, RefreshingCache};

pub use self::oidc::{OidcEndpoint, OidcError};
pub use self::registry::{AuthenticatorRegistry, ExecSettings};
pub use self::source::{AuthError, PreparedCredential};
use self::source::{AuthenticatorSource, SourceKind};
use credlet_kubeconfig::TokenFile;

/// Cached credential of one user, refreshed before it expires. Clones share the cache.
///
/// Building one runs no plugin. [`AuthenticatorRegistry`] returns the same authenticator for equal configurations.
#[derive(Clone)]
pub struct Authenticator {
    inner: Arc<AuthenticatorInner>,
}

struct AuthenticatorInner {
    cache: RefreshingCache<AuthenticatorSource>,
    observer: Arc<dyn PluginObserver>,
}

impl Authenticator {
    fn new(
        source: AuthenticatorSource,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn PluginObserver>,
        policy: RefreshPolicy,
    ) -> Self {
        Self { inner: Arc::new(AuthenticatorInner { cache: RefreshingCache::new(source, clock, policy), observer }) }
    }

    /// Returns an authenticator for a token file, which is read at least once a minute. The token `inline` is used until the file
    /// can be read for the first time.
    pub fn token_file(
        file: TokenFile,
        inline: Option<Secret>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn PluginObserver>,
    ) -> Self {
        let source =
            AuthenticatorSource::new(SourceKind::file(file, inline, Arc::clone(&clock)), Arc::clone(&observer));
        Self::new(source, clock, observer, RefreshPolicy::default())
    }

    /// Returns the cached credential if it is valid: one atomic load, without a lock or waiting.
    pub fn fresh(&self) -> Option<Arc<CachedValue<PreparedCredential>>> {
        let entry = self.inner.cache.fresh()?;
        self.inner.observer.observe(&PluginEvent::Hit);
        Some(entry)
    }

    /// Reports an unusable exec proxy to the observer.
    pub(crate) fn proxy_failed(&self) {
        self.inner.observer.observe(&PluginEvent::ProxyFailed);
    }

    /// Returns the cached credential, or waits for a new one.
    ///
    /// # Errors
    /// If the source fails, or failed recently and is in backoff.
    pub async fn credential(&self) -> Result<Arc<CachedValue<PreparedCredential>>, Arc<AuthError>> {
        match self.fresh() {
            Some(entry) => Ok(entry),
            None => self.inner.cache.get().await,
        }
    }

    /// Replaces the credential `rejected`, which the server answered with `response`. The source runs once for all callers with the
    /// same credential. Returns `None` if no other credential is available; the caller then returns the server's response.
    ///
    /// # Errors
    /// If the source fails. The rejected credential stays cached.
    pub async fn replace(
        &self,
        rejected: &CachedValue<PreparedCredential>,
        response: FailedResponse,
    ) -> Result<Option<Arc<CachedValue<PreparedCredential>>>, Arc<AuthError>> {
        self.inner.cache.replace(rejected, response).await
    }

    /// Replaces the credential of this generation, whose exec proxy has exited, once for all callers. Rate-limited: see [`RefreshingCache::reestablish`].
    ///
    /// # Errors
    /// If the plugin fails.
    pub async fn reestablish(&self, generation: u64) -> Result<Arc<CachedValue<PreparedCredential>>, Arc<AuthError>> {
        self.inner.cache.reestablish(generation).await
    }

    /// Denies standard input to plugins from now on, because this program reads it. `reason` is shown in the error of an
    /// interactive plugin.
    pub fn reserve_stdin(&self, reason: &str) {
        self.inner.cache.source().reserve_stdin(reason);
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("source", self.inner.cache.source()).finish()
    }
}
