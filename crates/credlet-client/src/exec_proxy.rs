//! Requests by the way of a plugin's proxy (KEP-2718), in place of the way to the server.
//!
//! What such a way is made of, this crate does not know: `credlet-proxy` does, and is given in
//! [`ClientOptions::exec_proxy`](crate::ClientOptions::exec_proxy).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use credlet_core::{Clock, Entry, LockFile, Proxy};

use crate::authenticator::{Authenticator, Issued};
use crate::conn::{Connecting, Credential, Error, Forwarding, Hop, Identity, Renewing, Route, Target};

/// How long a request waits for a proxy to come back.
const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy that came after a TLS failure, and has another one after this long, is one that worked meanwhile: there may be
/// another now.
const HEALTHY: Duration = Duration::from_secs(60);

/// Whoever knows the way into a plugin's proxy.
pub trait ExecProxy: LockFile {
    /// The way into this one. Nobody is called yet. `identity` says whether there is a client certificate for it.
    ///
    /// # Errors
    /// [`Error::ExecProxy`]: the plugin's author must act.
    fn route(self: Arc<Self>, proxy: &Proxy, identity: bool) -> Result<Arc<dyn Route>, Error>;
}

/// Makes of what an [`Authenticator`] issued what connections go by.
pub struct Presenter {
    authenticator: Authenticator,
    clock: Arc<dyn Clock>,
    identity: Option<Identity>,
    exec_proxy: Option<Arc<dyn ExecProxy>>,
    /// The newest route, so that a new token alone does not cost the connections. Weak: the route has us.
    newest: Mutex<Weak<Renewed>>,
    /// The serial of what came after a TLS failure, and when: after another one soon there is no use in trying again.
    after_tls_failure: Mutex<(u64, Duration)>,
}

impl Presenter {
    /// For this authenticator. `identity` is the kubeconfig's own certificate, for the server; without an `exec_proxy`
    /// there is no way but to the server.
    pub fn new(
        authenticator: Authenticator,
        clock: Arc<dyn Clock>,
        identity: Option<Identity>,
        exec_proxy: Option<Arc<dyn ExecProxy>>,
    ) -> Arc<Self> {
        let (newest, after_tls_failure) = (Mutex::default(), Mutex::default());
        Arc::new(Self { authenticator, clock, identity, exec_proxy, newest, after_tls_failure })
    }

    /// What connections go by.
    ///
    /// # Errors
    /// [`Error::ExecProxy`]: the plugin's author must act.
    pub fn credential(self: &Arc<Self>, entry: &Entry<Issued>) -> Result<Credential, Error> {
        let issued = entry.value();
        let authorization = issued.authorization().cloned();
        let of_plugin = issued.identity().cloned();
        match (&issued.credential().proxy, &self.exec_proxy) {
            (Some(proxy), Some(exec_proxy)) => {
                let route = self.route(proxy, exec_proxy, of_plugin.is_some())?;
                // The plugin's certificate is for its proxy; the kubeconfig's is for the server and for nobody else.
                Ok(Credential::new(entry.generation(), authorization, of_plugin).through(route))
            }
            _ => {
                let identity = of_plugin.or_else(|| self.identity.clone());
                Ok(Credential::new(entry.generation(), authorization, identity))
            }
        }
    }

    fn route(
        self: &Arc<Self>,
        proxy: &Proxy,
        exec_proxy: &Arc<dyn ExecProxy>,
        identity: bool,
    ) -> Result<Arc<dyn Route>, Error> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = newest.upgrade().filter(|route| route.proxy == *proxy) {
            return Ok(route);
        }
        let way = Arc::clone(exec_proxy).route(proxy, identity);
        let way = way.inspect_err(|_| self.authenticator.proxy_failed())?;
        let route = Arc::new(Renewed { way, proxy: proxy.clone(), presenter: Arc::clone(self) });
        *newest = Arc::downgrade(&route);
        Ok(route)
    }

    async fn bring_back(self: &Arc<Self>, serial: u64, host: Arc<str>, gone: Error) -> Result<Credential, Error> {
        let tls_failed = matches!(gone, Error::Handshake { .. } | Error::Certificate { .. });
        if tls_failed {
            self.authenticator.proxy_failed();
        }
        let (after, since) = *self.after_tls_failure();
        if tls_failed && after == serial && self.clock.monotonic().saturating_sub(since) < HEALTHY {
            return Err(gone);
        }
        tracing::debug!(error = %gone, "running the plugin again");
        let entry = tokio::select! {
            biased;
            entry = self.authenticator.bring_back(serial) => entry,
            () = self.clock.sleep(PATIENCE) => return Err(gone),
        };
        let entry = entry.map_err(|error| Error::NotRenewed { host, source: error })?;
        if tls_failed {
            *self.after_tls_failure() = (entry.generation(), self.clock.monotonic());
        }
        self.credential(&entry)
    }

    fn after_tls_failure(&self) -> MutexGuard<'_, (u64, Duration)> {
        self.after_tls_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Presenter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presenter").field("authenticator", &self.authenticator).finish_non_exhaustive()
    }
}

/// A way into a plugin's proxy, and the plugin to start another one.
struct Renewed {
    way: Arc<dyn Route>,
    proxy: Proxy,
    presenter: Arc<Presenter>,
}

impl fmt::Debug for Renewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.way.fmt(f)
    }
}

impl Route for Renewed {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async {
            let connected = self.way.connect(target).await;
            connected.inspect_err(|_| self.presenter.authenticator.proxy_failed())
        })
    }

    fn via(&self) -> Option<&str> {
        self.way.via()
    }

    fn is_private(&self) -> bool {
        self.way.is_private()
    }

    fn hop(&self) -> Option<Hop> {
        self.way.hop()
    }

    fn is_renewable(&self) -> bool {
        true
    }

    fn renew<'a>(&'a self, serial: u64, gone: Error) -> Renewing<'a> {
        let host = self.via().unwrap_or_default().into();
        Box::pin(self.presenter.bring_back(serial, host, gone))
    }

    fn forwarding(&self) -> Option<Forwarding> {
        self.way.forwarding()
    }
}
