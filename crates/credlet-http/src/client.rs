use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderValue, Request, Response};
use rustls::pki_types::ServerName;

use super::authority::set_authority;
use super::body::{RequestBody, ResponseBody};
use super::connection_group::ConnectionGroup;
use super::dial::Dialer;
use super::h2_connection::PeerStreamLimit;
use super::pool::ConnectionPool;
use super::retry::RetryState;
use super::route::{DirectRoute, IntermediaryTls, Route};
use super::tls::{TlsFactory, TlsSession};
use super::tunnel::ProxyTunnel;
use super::{ClientSettings, HttpError, ProxyScheme, TlsIdentity};

/// Sends requests to one server, each with the current credential. Clones share connections and credential.
///
/// It requires a tokio runtime with time and I/O enabled. Dropping the last clone closes idle connections; responses in
/// progress can still be read.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Shared>,
}

struct Shared {
    settings: ClientSettings,
    route: Arc<dyn Route>,
    /// `None`: no TLS.
    tls: Option<(TlsFactory, ServerName<'static>)>,
    /// Shared by all generations, since they connect to the same server.
    peer_limit: Arc<PeerStreamLimit>,
    opened: Arc<AtomicU64>,
    current: ArcSwap<Generation>,
    /// Serializes writers of `current`.
    publish_lock: Mutex<()>,
}

/// Credential for requests: `Authorization` header, client certificate and route, each optional.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HttpCredential {
    /// Generation number. A newer credential has a higher one; 0 stands for no credential.
    pub generation: u64,
    /// `Authorization` header for requests without one. [`HttpClient::publish`] marks it sensitive.
    pub authorization: Option<HeaderValue>,
    /// Certificate and key for client authentication in TLS handshakes.
    pub identity: Option<TlsIdentity>,
    /// Route that replaces the one of the settings.
    pub route: Option<Arc<dyn Route>>,
}

impl HttpCredential {
    /// Creates a credential. The first generation is 1.
    pub fn new(generation: u64, authorization: Option<HeaderValue>, identity: Option<TlsIdentity>) -> Self {
        Self { generation, authorization, identity, route: None }
    }

    /// Sets the route.
    #[must_use]
    pub fn with_route(self, route: Arc<dyn Route>) -> Self {
        Self { route: Some(route), ..self }
    }

    /// Whether connections of the other credential can be used with this one.
    fn shares_connections(&self, other: &Self) -> bool {
        let same_route = match (&self.route, &other.route) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same_route && self.identity == other.identity
    }
}

/// Generation of the [`HttpCredential`] that a request was sent with. It is an extension of every response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialGeneration(pub u64);

/// A credential and the connections opened with it. Each attempt uses the current one.
struct Generation {
    credential: HttpCredential,
    /// Shared with the previous generation if only the token has changed.
    pool: Arc<ConnectionPool>,
}

/// Delay before a retry on a renewable route. The kernel accepts connections for a killed exec proxy a moment longer than
/// it runs; after that connecting fails, and the proxy can be replaced.
const EXEC_PROXY_EXIT_GRACE: Duration = Duration::from_millis(100);

impl HttpClient {
    /// Creates a client. It opens no connection before the first request, and sends no credential until one is
    /// [published](Self::publish).
    ///
    /// # Errors
    /// If the settings cannot be used, for example the trust roots.
    pub fn new(settings: ClientSettings) -> Result<Self, HttpError> {
        let server = &settings.server;
        let by_proxy = settings.proxy.as_ref().filter(|_| settings.route.is_none());
        let to_proxy = by_proxy.is_some_and(|proxy| proxy.scheme() == ProxyScheme::Https);
        let to_server = server.is_https() && settings.route.as_ref().is_none_or(|route| !route.is_private());
        let tls = || TlsFactory::new(settings.crypto.clone(), settings.roots.clone(), settings.clock.clone());
        // Only where it is needed: this loads the system's trust store, which may be more than a hundred files.
        let tls = (to_proxy || to_server).then(tls).transpose()?;
        let route = match (&settings.route, &settings.proxy) {
            (Some(route), _) => route.clone(),
            (None, None) => Arc::new(DirectRoute::new(settings.timeouts.connect)),
            (None, Some(proxy)) => Arc::new(ProxyTunnel {
                direct: DirectRoute::new(settings.timeouts.connect),
                tls: tls.as_ref().filter(|_| to_proxy).map(TlsFactory::for_proxy).transpose()?,
                forwarding: !server.is_https() && proxy.scheme() != ProxyScheme::Socks5,
                proxy: proxy.clone(),
            }),
        };
        let tls = match tls.filter(|_| to_server) {
            Some(tls) => {
                let name = settings.tls_server_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(server.host());
                let name = ServerName::try_from(name.to_owned()).map_err(|_| HttpError::InvalidServer {
                    reason: "has a host that is not a valid TLS server name",
                })?;
                Some((tls, name))
            }
            None => None,
        };
        let (peer_limit, opened) = (Arc::default(), Arc::default());
        let session =
            tls.as_ref().map(|(tls, name)| Ok::<_, HttpError>((tls.session(None)?, name.clone()))).transpose()?;
        let pool = new_pool(&settings, &route, session, &peer_limit, &opened);
        let current = ArcSwap::from_pointee(Generation { credential: HttpCredential::default(), pool });
        let publish_lock = Mutex::new(());
        Ok(Self { shared: Arc::new(Shared { settings, route, tls, peer_limit, opened, current, publish_lock }) })
    }

    /// Replaces the credential. One with a lower generation than the current is ignored, so that a late caller does not
    /// undo a newer change.
    ///
    /// A new token is used on the open connections. A new certificate or route needs new connections: idle ones are closed
    /// at once, the others when their last request has completed or the drain timeout expires. A task in the caller's
    /// runtime enforces the timeout; without a runtime there is none.
    ///
    /// # Errors
    /// If the certificate cannot be used. The current credential stays.
    pub fn publish(&self, mut credential: HttpCredential) -> Result<(), HttpError> {
        if let Some(authorization) = &mut credential.authorization {
            authorization.set_sensitive(true);
        }
        let shared = &self.shared;
        let _guard = shared.publish_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let current = shared.current.load_full();
        let generation = credential.generation;
        if generation < current.credential.generation {
            return Ok(());
        }
        if credential.shares_connections(&current.credential) {
            shared.current.store(Arc::new(Generation { credential, pool: current.pool.clone() }));
            tracing::debug!(generation, host = %shared.settings.server, "replaced the token, keeping connections");
            return Ok(());
        }
        let pool = shared.pool(&credential)?;
        shared.current.store(Arc::new(Generation { credential, pool }));
        tracing::debug!(generation, host = %shared.settings.server, "replaced the client certificate or route");
        self.shared.drain(&current.pool);
        Ok(())
    }

    /// Opens a connection for a later request, with `upgrade` one for HTTP/1.1, unless there is one. If the future is
    /// dropped, the connection is still opened and used by other requests.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn connect(&self, upgrade: bool) -> Result<(), HttpError> {
        self.shared.current.load_full().pool.connect(upgrade).await
    }

    /// Closes all connections, as if the certificate had been replaced, and discards TLS sessions: for a removed hardware
    /// key.
    ///
    /// # Errors
    /// If the certificate cannot be used.
    pub fn disconnect(&self) -> Result<(), HttpError> {
        let shared = &self.shared;
        let _guard = shared.publish_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let current = shared.current.load_full();
        let credential = current.credential.clone();
        let pool = shared.pool(&credential)?;
        shared.current.store(Arc::new(Generation { credential, pool }));
        shared.drain(&current.pool);
        Ok(())
    }

    /// Returns the generation of the current credential.
    pub fn generation(&self) -> u64 {
        self.shared.current.load().credential.generation
    }

    /// Returns the number of connections opened so far, each with a TLS handshake.
    pub fn connections_opened(&self) -> u64 {
        self.shared.opened.load(Relaxed)
    }

    /// Sends a request and returns the response when its headers have arrived. The path is sent unchanged; a URL of another
    /// server is rejected.
    ///
    /// A request that the server did not process is retried with the credential that is current then, and a GET also if the
    /// connection failed. No other request is ever sent twice. A request with `Upgrade` uses HTTP/1.1; take the stream with
    /// `hyper::upgrade::on`.
    ///
    /// # Errors
    /// If no response arrives. Error statuses are responses.
    pub async fn send(&self, mut request: Request<RequestBody>) -> Result<Response<ResponseBody>, HttpError> {
        set_authority(&self.shared.settings.server, &mut request)?;
        let mut state = RetryState::new(request, self.shared.settings.max_retries);
        loop {
            let current = self.shared.current.load_full();
            let Some(request) = state.next_attempt(current.credential.authorization.as_ref()) else {
                return Err(HttpError::Canceled { host: self.shared.settings.server.name().clone() });
            };
            match current.pool.attempt(request, state.upgrade).await {
                Ok(mut response) => {
                    response.extensions_mut().insert(CredentialGeneration(current.credential.generation));
                    return Ok(response);
                }
                Err(failed) => {
                    let route = current.credential.route.as_ref().filter(|route| route.is_renewable());
                    match (route, state.should_reroute(&failed)) {
                        (Some(route), true) => {
                            let cause = state.reroute(failed);
                            self.publish(route.renew(current.credential.generation, cause).await?)?;
                        }
                        // The peer may have received the request, so it is not retried, but the next one needs a new route.
                        (Some(route), false) if state.abandons_route(&failed) => {
                            let renewed = route.renew(current.credential.generation, failed.error.clone()).await;
                            // If this fails, the next request reports it.
                            let _ = renewed.and_then(|renewed| self.publish(renewed));
                            return Err(failed.error);
                        }
                        (route, _) => {
                            let connection_lost = failed.delivery.is_connection_lost();
                            state.retry(failed)?;
                            if connection_lost && route.is_some() {
                                self.shared.settings.clock.sleep(EXEC_PROXY_EXIT_GRACE).await;
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Shared {
    /// Creates the pool for a credential.
    fn pool(&self, credential: &HttpCredential) -> Result<Arc<ConnectionPool>, HttpError> {
        let route = credential.route.as_ref().unwrap_or(&self.route);
        let identity = credential.identity.clone();
        let session = match (credential.route.as_ref().map(|route| route.intermediary_tls()), &self.tls) {
            (Some(Some(intermediary)), _) => Some(self.intermediary_session(intermediary, identity)?),
            (Some(None), _) if route.is_private() => None,
            (_, Some((tls, name))) => Some((tls.session(identity)?, name.clone())),
            (_, None) => None,
        };
        // An intermediary has its own stream limit.
        let peer_limit = if credential.route.is_some() { &Arc::default() } else { &self.peer_limit };
        Ok(new_pool(&self.settings, route, session, peer_limit, &self.opened))
    }

    fn intermediary_session(
        &self,
        intermediary: IntermediaryTls,
        identity: Option<TlsIdentity>,
    ) -> Result<(TlsSession, ServerName<'static>), HttpError> {
        let name = ServerName::try_from(intermediary.name).map_err(|_| HttpError::ExecProxy {
            reason: "its address has a host that is not a valid TLS server name".into(),
        })?;
        let tls = TlsFactory::tls13(self.settings.crypto.clone(), intermediary.roots, self.settings.clock.clone())
            .map_err(|error| HttpError::ExecProxy { reason: error.to_string() })?;
        Ok((tls.session(identity)?, name))
    }

    /// Retires a pool and closes its connections after the drain timeout.
    fn drain(&self, pool: &ConnectionPool) {
        pool.retire();
        let Some(timeout) = self.settings.drain_timeout else { return };
        let (group, clock) = (pool.dialer.group.clone(), self.settings.clock.clone());
        match tokio::runtime::Handle::try_current() {
            // The task holds the group and not the generation, so it keeps no connection open.
            Ok(runtime) => drop(runtime.spawn(async move { group.drain(timeout, &*clock).await })),
            Err(_) => tracing::debug!("cannot enforce the drain timeout: no tokio runtime"),
        }
    }
}

fn new_pool(
    settings: &ClientSettings,
    route: &Arc<dyn Route>,
    tls: Option<(TlsSession, ServerName<'static>)>,
    peer_limit: &Arc<PeerStreamLimit>,
    opened: &Arc<AtomicU64>,
) -> Arc<ConnectionPool> {
    let dialer = Dialer {
        server: settings.server.clone(),
        route: route.clone(),
        tls,
        timeouts: settings.timeouts.clone(),
        clock: settings.clock.clone(),
        group: ConnectionGroup::default(),
        opened: opened.clone(),
    };
    ConnectionPool::new(dialer, settings.tuning.clone(), peer_limit.clone())
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("server", &self.shared.settings.server)
            .field("generation", &self.generation())
            .finish()
    }
}

impl tower_service::Service<Request<RequestBody>> for HttpClient {
    type Response = Response<ResponseBody>;
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, HttpError>> + Send>>;

    /// Always ready: the pool enforces the server's limits.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), HttpError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}
