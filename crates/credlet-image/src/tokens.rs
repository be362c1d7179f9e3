//! Tokens of service accounts, kept for as long as the kubelet keeps them.
//!
//! Answers that are remembered by the token are found again only if the same pod comes with the same token.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_api::{Secret, oidc};
use credlet_core::Clock;
use jiff::Timestamp;

use crate::service_account::{Answered, ServiceAccount, ServiceAccounts, TokenRequest};

/// However long a token lives, a new one is asked for after this long.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Somebody who knows service accounts, and remembers their tokens.
pub(crate) struct KeptTokens {
    accounts: Arc<dyn ServiceAccounts>,
    clock: Arc<dyn Clock>,
    kept: Mutex<HashMap<TokenRequest, Kept>>,
}

struct Kept {
    token: Secret,
    /// Until when nobody is asked for another: four fifths of its life.
    fresh: Timestamp,
    /// Until when it is better than none.
    end: Timestamp,
}

impl KeptTokens {
    pub(crate) fn new(accounts: Arc<dyn ServiceAccounts>, clock: Arc<dyn Clock>) -> Self {
        Self { accounts, clock, kept: Mutex::default() }
    }

    fn kept(&self, request: &TokenRequest, good: impl Fn(&Kept) -> bool) -> Option<Secret> {
        self.lock().get(request).filter(|kept| good(kept)).map(|kept| kept.token.clone())
    }

    /// Keeps a token that says when it ends; those of pods that are gone are let go of with their end.
    fn keep(&self, request: &TokenRequest, token: &Secret, asked: Timestamp) {
        let Some(end) = oidc::expiry(token).filter(|end| *end > asked) else { return };
        let life = Duration::try_from(end.duration_since(asked)).unwrap_or_default();
        let Ok(fresh) = asked.checked_add((life / 5 * 4).min(LONGEST)) else { return };
        let mut kept = self.lock();
        kept.retain(|_, kept| asked < kept.end);
        kept.insert(request.clone(), Kept { token: token.clone(), fresh, end });
    }

    /// Nothing under the lock can panic half-way through a change.
    fn lock(&self) -> MutexGuard<'_, HashMap<TokenRequest, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServiceAccounts for KeptTokens {
    fn service_account<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answered<'a, ServiceAccount> {
        self.accounts.service_account(namespace, name)
    }

    fn token<'a>(&'a self, request: &'a TokenRequest) -> Answered<'a, Secret> {
        Box::pin(async move {
            let asked = self.clock.now();
            if let Some(token) = self.kept(request, |kept| asked < kept.fresh) {
                return Ok(token);
            }
            match self.accounts.token(request).await {
                Ok(token) => {
                    self.keep(request, &token, asked);
                    Ok(token)
                }
                Err(error) => self.kept(request, |kept| asked < kept.end).ok_or(error),
            }
        })
    }
}

impl fmt::Debug for KeptTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptTokens").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}
