//! The `auth-provider` oidc, as client-go's: an ID token as a bearer token, renewed with a refresh token.
//!
//! **The path:** the ID token is used until it ends → the file is read again, in case somebody else has renewed it →
//! the issuer is asked where it gives tokens, and then for new ones → they go back into the file.
//!
//! Two things are done that client-go leaves undone: a refused token is renewed as well, and processes that share a
//! file take turns, so that an issuer that gives each refresh token once is asked once.

mod ask;
mod edit;
mod error;
mod home;
mod login;
mod refresh;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::oidc;
use credlet_core::{Why, World};
use jiff::Timestamp;

pub use self::error::{Endpoint, OidcError};
use self::home::{Home, Saved};
use self::login::{Login, Tokens};
use crate::conn::Crypto;
use crate::kubeconfig::{AuthProvider, Origin, Sourced};

/// How long an issuer has for both its answers together.
const LIMIT: Duration = Duration::from_secs(30);

/// A token that ends sooner than this is not begun with, as with client-go: clocks differ.
const LEEWAY: Duration = Duration::from_secs(10);

/// One user's login.
pub(super) struct Provider {
    shared: Arc<Shared>,
}

struct Shared {
    login: Login,
    /// `None`: the kubeconfig was no file.
    home: Option<Home>,
    crypto: Crypto,
    world: World,
    /// Whether this issuer wants the client's secret in the form.
    in_form: AtomicBool,
    held: Mutex<Held>,
}

#[derive(Clone)]
struct Held {
    tokens: Tokens,
    /// What the file has, or had when it was last looked at. If it has something else, that is somebody else's doing.
    on_file: Tokens,
}

impl Provider {
    pub(super) fn new(provider: &Sourced<AuthProvider>, user: &str, crypto: Crypto, world: World) -> Self {
        let settings = provider.config.clone();
        let tokens = Tokens::of(&settings);
        let home = match &provider.origin {
            Origin::File { path, .. } => {
                Some(Home { path: Arc::clone(path), user: user.to_owned(), settings: settings.clone() })
            }
            _ => None,
        };
        let held = Mutex::new(Held { on_file: tokens.clone(), tokens });
        let in_form = AtomicBool::new(false);
        Self { shared: Arc::new(Shared { login: Login(settings), home, crypto, world, in_form, held }) }
    }

    /// An ID token, and when it ends.
    pub(super) async fn fetch(&self, why: &Why) -> Result<(Secret, Timestamp), OidcError> {
        let held = self.shared.held().tokens.id.clone();
        if *why == Why::Wanted
            && let Some(ends) = self.shared.good_until(&held)
        {
            return Ok((held, ends));
        }
        // In a task of its own, because once the issuer has been asked the refresh token may be used up, and the new
        // one must find its way into the file even if nobody waits for it any more. The limits end it soon.
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move { shared.renew().await }).await.unwrap_or(Err(OidcError::Abandoned))
    }

    /// Whether there is anything to renew with.
    pub(super) fn may_run_ahead(&self) -> bool {
        !self.shared.held().tokens.refresh.is_empty()
    }
}

impl Shared {
    async fn renew(self: Arc<Self>) -> Result<(Secret, Timestamp), OidcError> {
        let _turn = match &self.home {
            Some(home) => home.turn(&*self.world.clock, LIMIT + LIMIT / 2).await,
            None => None,
        };
        if let Some(found) = self.look_again().await {
            return Ok(found);
        }
        let refresh_token = self.held().tokens.refresh.clone();
        let refreshed = tokio::select! {
            refreshed = refresh::refresh(&self.login, &refresh_token, &self.in_form, &self.crypto, &self.world) => refreshed,
            () = self.world.clock.sleep(LIMIT) => Err(OidcError::TimedOut),
        };
        let (refreshed, host) = match refreshed {
            Ok(refreshed) => refreshed,
            // Perhaps somebody who takes no turns was quicker with it.
            Err(error @ OidcError::RefreshToken { .. }) => return self.look_again().await.ok_or(error),
            Err(error) => return Err(error),
        };
        let or = |new: Secret, old: Secret| if new.is_empty() { old } else { new };
        let has_id = !refreshed.id_token.is_empty();
        let tokens = {
            let mut held = self.held();
            held.tokens.id = or(refreshed.id_token, held.tokens.id.clone());
            held.tokens.refresh = or(refreshed.refresh_token, refresh_token.clone());
            held.tokens.clone()
        };
        self.keep(tokens.refresh != refresh_token).await;
        if !has_id {
            return Err(OidcError::NoIdToken { host });
        }
        let id = self.held().tokens.id.clone();
        // One that does not say when it ends is given to those who wait, and then asked for again.
        let ends = oidc::expiry(&id).unwrap_or_else(|| self.world.clock.now());
        Ok((id, ends))
    }

    /// Takes over what somebody else has put into the file. Gives the ID token, if it is another and good.
    async fn look_again(self: &Arc<Self>) -> Option<(Secret, Timestamp)> {
        let shared = Arc::clone(self);
        let found = blocking(move || shared.home.as_ref()?.tokens()).await??;
        let mut held = self.held();
        if found == held.on_file {
            return None;
        }
        let before = std::mem::replace(&mut held.tokens, found.clone()).id;
        held.on_file = found.clone();
        drop(held);
        let ends = self.good_until(&found.id).filter(|_| found.id != before)?;
        tracing::debug!("the tokens in the kubeconfig were renewed by somebody else and are used");
        Some((found.id, ends))
    }

    /// Puts the tokens into the file. Where that is not possible they serve this process, and its owner is told.
    async fn keep(self: &Arc<Self>, rotated: bool) {
        let Some(home) = &self.home else {
            if rotated {
                tracing::warn!(
                    "the issuer has replaced the refresh-token, and there is no kubeconfig file to put the new one into: \
                     when this program ends, log in again"
                );
            }
            return;
        };
        let shared = Arc::clone(self);
        let saved = blocking(move || {
            let Held { tokens, on_file } = shared.held().clone();
            shared.home.as_ref().map(|home| home.save(&on_file, &tokens, |id| shared.good_until(id).is_some()))
        });
        match saved.await.flatten() {
            Some(Ok(Saved::Ours(now))) => self.held().on_file = now,
            Some(Ok(Saved::Theirs(now))) => *self.held() = Held { tokens: now.clone(), on_file: now },
            Some(Err(problem)) if rotated => tracing::warn!(
                "{}: the file {problem}; the issuer has replaced the refresh-token in it, so when this program ends, \
                 log in again",
                home.place(Some(&problem))
            ),
            Some(Err(problem)) => {
                tracing::warn!("{}: the file {problem}; its id-token is out of date", home.place(Some(&problem)));
            }
            None => tracing::warn!("{}: the renewed tokens could not be written", home.place(None)),
        }
    }

    /// When the token ends, if that is not too soon.
    fn good_until(&self, id: &Secret) -> Option<Timestamp> {
        let soon = self.world.clock.now().saturating_add(LEEWAY).ok()?;
        oidc::expiry(id).filter(|ends| soon < *ends)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs what waits for a disk where nobody else has to wait for it. What has begun is not given up half-way.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.shared.home.as_ref().map(|home| &home.path);
        f.debug_struct("AuthProvider").field("name", &"oidc").field("file", &file).finish()
    }
}
