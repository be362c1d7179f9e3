//! One credential for everybody in this process who needs the same one.

pub(crate) mod issuer;
mod oidc;
mod registry;

use std::fmt;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_api::exec::Response;
use credlet_core::{Clock, Entry, Event, Flight, Observer, Patience};

pub use self::issuer::{AuthError, Issued};
use self::issuer::{Issuer, Origin};
pub use self::oidc::{Endpoint, OidcError};
pub use self::registry::{Authenticators, ExecSettings};
use crate::kubeconfig::TokenFile;

/// Gives the credential of the moment, and renews it. Clones share everything.
///
/// Building one runs nothing. Get it from [`Authenticators`], so that equal configurations share.
#[derive(Clone)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

struct Inner {
    flight: Flight<Issuer>,
    observer: Arc<dyn Observer>,
}

impl Authenticator {
    fn new(issuer: Issuer, clock: Arc<dyn Clock>, observer: Arc<dyn Observer>, patience: Patience) -> Self {
        Self { inner: Arc::new(Inner { flight: Flight::new(issuer, clock, patience), observer }) }
    }

    /// For a token that somebody keeps fresh in a file. It is read again at least once a minute; `inline` serves until
    /// it can be read for the first time.
    pub fn token_file(
        file: TokenFile,
        inline: Option<Secret>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let issuer = Issuer::new(Origin::file(file, inline, Arc::clone(&clock)), Arc::clone(&observer));
        Self::new(issuer, clock, observer, Patience::default())
    }

    /// The credential if it is fresh: one atomic load, no lock, no waiting.
    pub fn fresh(&self) -> Option<Arc<Entry<Issued>>> {
        let entry = self.inner.flight.fresh()?;
        self.inner.observer.observe(&Event::Hit);
        Some(entry)
    }

    /// Tells the observer that the proxy of the credential cannot be used.
    pub(crate) fn proxy_failed(&self) {
        self.inner.observer.observe(&Event::ProxyFailed);
    }

    /// The credential, waiting for a run of the plugin if there is none that can be used.
    ///
    /// # Errors
    /// Says who must act.
    pub async fn credential(&self) -> Result<Arc<Entry<Issued>>, Arc<AuthError>> {
        match self.fresh() {
            Some(entry) => Ok(entry),
            None => self.inner.flight.get().await,
        }
    }

    /// Another credential in place of `refused`, which the server said no to; once for all who hold it.
    /// `None`: there is none for now, and the server's answer stands.
    ///
    /// # Errors
    /// Says who must act. The refused credential stays.
    pub async fn replace(
        &self,
        refused: &Entry<Issued>,
        response: Response,
    ) -> Result<Option<Arc<Entry<Issued>>>, Arc<AuthError>> {
        self.inner.flight.replace(refused, response).await
    }

    /// Another credential in place of that of the generation `gone`, which leads to a proxy that is not there any more;
    /// once for all who hold it, and not too often: see [`Flight::bring_back`].
    ///
    /// # Errors
    /// Says who must act.
    pub async fn bring_back(&self, gone: u64) -> Result<Arc<Entry<Issued>>, Arc<AuthError>> {
        self.inner.flight.bring_back(gone).await
    }

    /// From now on this program needs standard input for itself, for this reason: no plugin may have it any more.
    pub fn reserve_stdin(&self, reason: &str) {
        self.inner.flight.source().reserve_stdin(reason);
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("source", self.inner.flight.source()).finish()
    }
}
