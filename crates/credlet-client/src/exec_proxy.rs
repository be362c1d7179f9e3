//! Conversion of credentials into what connections need, including the route through an exec proxy (KEP-2718).
//!
//! [`ConnectionCredentials`] turns each [`PreparedCredential`] into an [`HttpCredential`]: `Authorization` header, client
//! certificate and, if the plugin returned an exec proxy, an `ExecProxyRoute` in place of the direct connection. If that
//! proxy exits, the route runs the plugin again.
//!
//! How to connect to an exec proxy is up to the [`ExecProxy`] in
//! [`ClientOptions::exec_proxy`](crate::ClientOptions::exec_proxy); `credlet-proxy` implements it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use credlet_exec::{CachedValue, Clock, LockFile, PluginProxy};
use credlet_http::{
    ConnectFuture, HostPort, HttpClient, HttpCredential, HttpError, IntermediaryTls, ProxyForwarding, RenewFuture,
    Route, TlsIdentity,
};

use crate::authenticator::{Authenticator, PreparedCredential};

/// How long a request waits for the plugin to start another exec proxy.
const REESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);

/// After a TLS failure led to a new exec proxy, another TLS failure within this time does not run the plugin again.
const TLS_FAILURE_COOLDOWN: Duration = Duration::from_secs(60);

/// Connects to exec proxies that plugins return.
pub trait ExecProxy: LockFile {
    /// Returns the route into this exec proxy without connecting. `identity` tells whether the plugin returned a client
    /// certificate for it.
    ///
    /// # Errors
    /// [`HttpError::ExecProxy`] if the plugin's output is invalid.
    fn route(self: Arc<Self>, proxy: &PluginProxy, identity: bool) -> Result<Arc<dyn Route>, HttpError>;
}

/// Converts the credentials of an [`Authenticator`] into credentials for connections.
pub struct ConnectionCredentials {
    authenticator: Authenticator,
    clock: Arc<dyn Clock>,
    identity: Option<TlsIdentity>,
    exec_proxy: Option<Arc<dyn ExecProxy>>,
    /// The newest route. It is reused if only the token has changed, so that its connections survive. Weak, because the route
    /// owns `self`.
    newest: Mutex<Weak<ExecProxyRoute>>,
    /// Generation and time of the last exec proxy that was started after a TLS failure.
    after_tls_failure: Mutex<(u64, Duration)>,
}

impl ConnectionCredentials {
    /// `identity` is the client certificate of the kubeconfig; it is sent to the API server only, never to an exec proxy.
    /// Without `exec_proxy` all connections go to the API server.
    pub fn new(
        authenticator: Authenticator,
        clock: Arc<dyn Clock>,
        identity: Option<TlsIdentity>,
        exec_proxy: Option<Arc<dyn ExecProxy>>,
    ) -> Arc<Self> {
        let (newest, after_tls_failure) = (Mutex::default(), Mutex::default());
        Arc::new(Self { authenticator, clock, identity, exec_proxy, newest, after_tls_failure })
    }

    /// Converts a credential.
    ///
    /// # Errors
    /// [`HttpError::ExecProxy`] if the plugin returned an invalid exec proxy.
    pub fn credential(self: &Arc<Self>, entry: &CachedValue<PreparedCredential>) -> Result<HttpCredential, HttpError> {
        let prepared = entry.value();
        let authorization = prepared.authorization().cloned();
        let plugin_identity = prepared.identity().cloned();
        match (&prepared.credential().proxy, &self.exec_proxy) {
            (Some(proxy), Some(exec_proxy)) => {
                let route = self.route(proxy, exec_proxy, plugin_identity.is_some())?;
                // The certificate of the kubeconfig is for the API server, so the exec proxy does not get it.
                Ok(HttpCredential::new(entry.generation(), authorization, plugin_identity).with_route(route))
            }
            _ => {
                let identity = plugin_identity.or_else(|| self.identity.clone());
                Ok(HttpCredential::new(entry.generation(), authorization, identity))
            }
        }
    }

    /// Publishes a credential to a connection pool, unless the pool has it or a newer one already.
    ///
    /// # Errors
    /// As [`credential`](Self::credential) and [`HttpClient::publish`].
    pub fn publish(
        self: &Arc<Self>,
        connections: &HttpClient,
        entry: &CachedValue<PreparedCredential>,
    ) -> Result<(), HttpError> {
        if connections.generation() < entry.generation() {
            connections.publish(self.credential(entry)?)?;
        }
        Ok(())
    }

    fn route(
        self: &Arc<Self>,
        proxy: &PluginProxy,
        exec_proxy: &Arc<dyn ExecProxy>,
        identity: bool,
    ) -> Result<Arc<dyn Route>, HttpError> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = newest.upgrade().filter(|route| route.proxy == *proxy) {
            return Ok(route);
        }
        let inner = Arc::clone(exec_proxy).route(proxy, identity);
        let inner = inner.inspect_err(|_| self.authenticator.proxy_failed())?;
        let route = Arc::new(ExecProxyRoute { inner, proxy: proxy.clone(), credentials: Arc::clone(self) });
        *newest = Arc::downgrade(&route);
        Ok(route)
    }

    /// Runs the plugin again after the exec proxy of this generation failed with `failure`, which is returned if there is no
    /// other one in time.
    async fn reestablish(
        self: &Arc<Self>,
        generation: u64,
        host: Arc<str>,
        failure: HttpError,
    ) -> Result<HttpCredential, HttpError> {
        let tls_failed = matches!(failure, HttpError::Handshake { .. } | HttpError::Certificate { .. });
        if tls_failed {
            self.authenticator.proxy_failed();
        }
        let (after, since) = *self.after_tls_failure();
        if tls_failed && after == generation && self.clock.monotonic().saturating_sub(since) < TLS_FAILURE_COOLDOWN {
            return Err(failure);
        }
        tracing::debug!(error = %failure, "running the plugin again for another exec proxy");
        let entry = tokio::select! {
            biased;
            entry = self.authenticator.reestablish(generation) => entry,
            () = self.clock.sleep(REESTABLISH_TIMEOUT) => return Err(failure),
        };
        let entry = entry.map_err(|error| HttpError::NotRenewed { host, source: error })?;
        if tls_failed {
            *self.after_tls_failure() = (entry.generation(), self.clock.monotonic());
        }
        self.credential(&entry)
    }

    fn after_tls_failure(&self) -> MutexGuard<'_, (u64, Duration)> {
        self.after_tls_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ConnectionCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionCredentials").field("authenticator", &self.authenticator).finish_non_exhaustive()
    }
}

/// Route into an exec proxy that runs the plugin again if the proxy has exited.
struct ExecProxyRoute {
    inner: Arc<dyn Route>,
    proxy: PluginProxy,
    credentials: Arc<ConnectionCredentials>,
}

impl fmt::Debug for ExecProxyRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Route for ExecProxyRoute {
    fn connect<'a>(&'a self, target: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(async {
            let connected = self.inner.connect(target).await;
            connected.inspect_err(|_| self.credentials.authenticator.proxy_failed())
        })
    }

    fn via(&self) -> Option<&str> {
        self.inner.via()
    }

    fn is_private(&self) -> bool {
        self.inner.is_private()
    }

    fn intermediary_tls(&self) -> Option<IntermediaryTls> {
        self.inner.intermediary_tls()
    }

    fn is_renewable(&self) -> bool {
        true
    }

    fn renew<'a>(&'a self, generation: u64, failure: HttpError) -> RenewFuture<'a> {
        let host = self.via().unwrap_or_default().into();
        Box::pin(self.credentials.reestablish(generation, host, failure))
    }

    fn forwarding(&self) -> Option<ProxyForwarding> {
        self.inner.forwarding()
    }
}
