//! Disk cache of access tokens.

use std::future::Future;
use std::ops::ControlFlow;
use std::time::Duration;

use credlet_api::Secret;
use credlet_exec::Platform;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{AccessToken, TokenError};
use credlet_exec::cache::rejection::{self, CallVerdict, CallerProcess};
use credlet_exec::store::{TokenCache, read_or_fetch};

/// How long to wait for a process that fetches the same token.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Access tokens on disk. The key of an entry covers everything that determines the token, including the credentials it is
/// obtained with.
#[derive(Clone, Debug)]
pub(crate) struct AccessTokenCache {
    /// `None`: the user has no cache directory.
    entries: Option<TokenCache>,
    platform: Platform,
}

#[derive(Deserialize)]
struct CachedToken {
    token: Secret,
    issued: i64,
    expires: i64,
}

impl AccessTokenCache {
    /// Uses the directory `name` in the user's cache directory.
    pub(crate) fn new(platform: &Platform, name: &str) -> Self {
        Self { entries: TokenCache::in_cache_dir(&*platform.env, name), platform: platform.clone() }
    }

    /// Returns the cached token of this key, or runs `fetch` and caches its result. Concurrent processes wait for the one that
    /// fetches. A token that the API server probably rejected is fetched anew (see `credlet_exec::cache::rejection`).
    pub(crate) async fn token(
        &self,
        key: &str,
        fetch: impl Future<Output = Result<AccessToken, TokenError>>,
    ) -> Result<AccessToken, TokenError> {
        let Some(entries) = &self.entries else { return fetch.await };
        let lock = async { Ok(entries.lock(key, &*self.platform.clock, LOCK_TIMEOUT).await) };
        let fetch_and_write = |_| async {
            let requested_at = self.platform.clock.now();
            let token = fetch.await?;
            if let Some(expires) = token.expires {
                let cached = CachedToken {
                    token: token.token.clone(),
                    issued: requested_at.as_second(),
                    expires: expires.as_second(),
                };
                entries.write_and_sweep(key, cached.encode().as_bytes());
                // The caller has now received the token once.
                self.record_call(entries, key, &cached);
            }
            Ok(token)
        };
        read_or_fetch(|earlier| self.look(entries, key, earlier.map(|(rejected, _)| rejected)), lock, fetch_and_write)
            .await
    }

    /// Returns the cached token, unless the API server probably rejected it. The second call gets the rejected token of the
    /// first, if any.
    fn look(
        &self,
        entries: &TokenCache,
        key: &str,
        earlier: Option<Option<Secret>>,
    ) -> ControlFlow<AccessToken, Option<Secret>> {
        let Some(cached) = self.read_fresh(entries, key) else { return ControlFlow::Continue(None) };
        let usable = match earlier {
            None => self.record_call(entries, key, &cached),
            Some(rejected) => rejected.is_none_or(|rejected| rejected != cached.token),
        };
        if usable { ControlFlow::Break(cached.token()) } else { ControlFlow::Continue(Some(cached.token)) }
    }

    fn read_fresh(&self, entries: &TokenCache, key: &str) -> Option<CachedToken> {
        let cached: CachedToken = serde_json::from_slice(&entries.read(key)?).ok()?;
        cached.is_fresh(self.platform.clock.now()).then_some(cached)
    }

    /// Records that the calling process receives this token. Returns whether it may be served: `false` if the calls of that
    /// process indicate that the API server rejected the token.
    fn record_call(&self, entries: &TokenCache, key: &str, cached: &CachedToken) -> bool {
        let Some(store) = entries.store() else { return false };
        let created = Timestamp::from_second(cached.issued).unwrap_or_default();
        let (caller, started) = (CallerProcess::parent(), rejection::boot_time_ns());
        let verdict = rejection::record_call(&store, key, caller, started, created, self.platform.clock.now());
        verdict.is_ok_and(|verdict| verdict == CallVerdict::Serve)
    }
}

impl CachedToken {
    fn token(&self) -> AccessToken {
        AccessToken { token: self.token.clone(), expires: Timestamp::from_second(self.expires).ok() }
    }

    /// Whether the token is valid for long enough to be used: a tenth of its lifetime, at least 10 s and at most 60 s.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let now = now.as_second();
        // A time of issue in the future means that the clock was set back by an unknown amount.
        let sane = !self.token.is_empty() && self.issued <= now + 60;
        sane && now < self.expires - ((self.expires - self.issued) / 10).clamp(10, 60)
    }

    fn encode(&self) -> Zeroizing<String> {
        #[derive(Serialize)]
        struct Wire<'a> {
            token: &'a str,
            issued: i64,
            expires: i64,
        }
        let wire = Wire { token: self.token.expose(), issued: self.issued, expires: self.expires };
        // Serializing strings and numbers cannot fail.
        Zeroizing::new(serde_json::to_string(&wire).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_margin_and_clock_jump() {
        let cached = |expires| CachedToken { token: "t".into(), issued: 1000, expires };
        let fresh_until = |expires| {
            let fresh = |now: &i64| cached(expires).is_fresh(Timestamp::from_second(*now).unwrap());
            (0..9000).rev().find(fresh)
        };
        assert_eq!(fresh_until(1000 + 3600), Some(1000 + 3600 - 61));
        assert_eq!(fresh_until(1000 + 300), Some(1000 + 300 - 31));
        assert_eq!(fresh_until(1000 + 5), Some(1000 + 5 - 11));
        let set_back = Timestamp::from_second(900).unwrap();
        assert!(!cached(4600).is_fresh(set_back));
        assert!(!CachedToken { token: "".into(), ..cached(4600) }.is_fresh(Timestamp::from_second(1000).unwrap()));
    }
}
