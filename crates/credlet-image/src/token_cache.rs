//! Cache of service account tokens, with the lifetimes of the kubelet's token manager.
//!
//! It keeps a pod's token stable, which responses that are cached by token depend on.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_api::{Secret, oidc};
use credlet_exec::Clock;
use jiff::Timestamp;

use crate::service_account::{AccountFuture, ServiceAccount, ServiceAccountApi, TokenRequest};

/// Age at which a token is replaced, whatever its lifetime.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// [`ServiceAccountApi`] that caches tokens.
pub(crate) struct ServiceAccountTokenCache {
    api: Arc<dyn ServiceAccountApi>,
    clock: Arc<dyn Clock>,
    tokens: Mutex<HashMap<TokenRequest, CachedToken>>,
}

struct CachedToken {
    token: Secret,
    /// Until then no other token is requested: four fifths of its lifetime.
    refresh_at: Timestamp,
    /// Until then it is used if no other token is available.
    expires: Timestamp,
}

impl ServiceAccountTokenCache {
    pub(crate) fn new(api: Arc<dyn ServiceAccountApi>, clock: Arc<dyn Clock>) -> Self {
        Self { api, clock, tokens: Mutex::default() }
    }

    fn cached(&self, request: &TokenRequest, usable: impl Fn(&CachedToken) -> bool) -> Option<Secret> {
        self.lock().get(request).filter(|cached| usable(cached)).map(|cached| cached.token.clone())
    }

    /// Caches a token that has an expiry, and removes expired ones.
    fn insert(&self, request: &TokenRequest, token: &Secret, now: Timestamp) {
        let Some(expires) = oidc::jwt_expiry(token).filter(|expires| *expires > now) else { return };
        let lifetime = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
        let Ok(refresh_at) = now.checked_add((lifetime / 5 * 4).min(MAX_AGE)) else { return };
        let mut tokens = self.lock();
        tokens.retain(|_, cached| now < cached.expires);
        tokens.insert(request.clone(), CachedToken { token: token.clone(), refresh_at, expires });
    }

    /// Ignores poisoning: no change under the lock can panic half-way.
    fn lock(&self) -> MutexGuard<'_, HashMap<TokenRequest, CachedToken>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServiceAccountApi for ServiceAccountTokenCache {
    fn service_account<'a>(&'a self, namespace: &'a str, name: &'a str) -> AccountFuture<'a, ServiceAccount> {
        self.api.service_account(namespace, name)
    }

    fn token<'a>(&'a self, request: &'a TokenRequest) -> AccountFuture<'a, Secret> {
        Box::pin(async move {
            let now = self.clock.now();
            if let Some(token) = self.cached(request, |cached| now < cached.refresh_at) {
                return Ok(token);
            }
            match self.api.token(request).await {
                Ok(token) => {
                    self.insert(request, &token, now);
                    Ok(token)
                }
                Err(error) => self.cached(request, |cached| now < cached.expires).ok_or(error),
            }
        })
    }
}

impl fmt::Debug for ServiceAccountTokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountTokenCache").field("api", &self.api).finish_non_exhaustive()
    }
}
