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

use super::body::{Body, Payload};
use super::dial::Dialler;
use super::gate::Gate;
use super::link::Usual;
use super::pool::Pool;
use super::retry::Call;
use super::route::{Direct, Hop, Route};
use super::tls::{Session, Tls};
use super::tunnel::Tunnel;
use super::{Error, Identity, ProxyScheme, Settings};

/// Sends requests to one server, each with the credential of the moment. Clones share everything.
///
/// It needs a tokio runtime with time and io. Dropping the last clone closes idle connections; open answers are read to
/// their end.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    route: Arc<dyn Route>,
    /// `None`: without TLS.
    tls: Option<(Tls, ServerName<'static>)>,
    /// What is known of the server is known to all generations.
    usual: Arc<Usual>,
    made: Arc<AtomicU64>,
    current: ArcSwap<Generation>,
    /// One writer at a time.
    turn: Mutex<()>,
}

/// What requests go out with.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Credential {
    /// Which one it is: a later one has a higher number. 0 is no credential yet.
    pub serial: u64,
    /// The `Authorization` of requests that have none of their own. [`Client::publish`] marks it sensitive.
    pub authorization: Option<HeaderValue>,
    /// The client certificate.
    pub identity: Option<Identity>,
    /// Its own way, in place of that of the settings.
    pub route: Option<Arc<dyn Route>>,
}

impl Credential {
    /// The first has the number 1.
    pub fn new(serial: u64, authorization: Option<HeaderValue>, identity: Option<Identity>) -> Self {
        Self { serial, authorization, identity, route: None }
    }

    /// The same, but requests take this way.
    #[must_use]
    pub fn through(self, route: Arc<dyn Route>) -> Self {
        Self { route: Some(route), ..self }
    }

    /// Whether connections that were made for the other one are good for this one.
    fn shares_connections(&self, other: &Self) -> bool {
        let same_route = match (&self.route, &other.route) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same_route && self.identity == other.identity
    }
}

/// The number of the [`Credential`] that a response was asked for with: an extension of every response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentWith(pub u64);

/// A credential and the connections made with it. A request takes one of these as it is when it starts.
struct Generation {
    credential: Credential,
    /// Shared with the generation before if only the token has changed.
    pool: Arc<Pool>,
}

/// Who was killed at the far end of a route lets callers in for a moment longer than they answer. Afterwards it shows that
/// nobody is there, and another can be asked for.
const LAST_BREATH: Duration = Duration::from_millis(100);

impl Client {
    /// No connection is made yet, and no credential is sent until one is [published](Self::publish).
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let server = &settings.server;
        let by_proxy = settings.proxy.as_ref().filter(|_| settings.route.is_none());
        let to_proxy = by_proxy.is_some_and(|proxy| proxy.scheme() == ProxyScheme::Https);
        let to_server = server.is_https() && settings.route.as_ref().is_none_or(|route| !route.is_private());
        let tls = || Tls::new(settings.crypto.clone(), settings.roots.clone(), settings.clock.clone());
        // Only where it is spoken: this reads the system's authorities, which may be more than a hundred files.
        let tls = (to_proxy || to_server).then(tls).transpose()?;
        let route = match (&settings.route, &settings.proxy) {
            (Some(route), _) => route.clone(),
            (None, None) => Arc::new(Direct::new(settings.limits.connect)),
            (None, Some(proxy)) => Arc::new(Tunnel {
                direct: Direct::new(settings.limits.connect),
                tls: tls.as_ref().filter(|_| to_proxy).map(Tls::for_proxy).transpose()?,
                forwards: !server.is_https() && proxy.scheme() != ProxyScheme::Socks5,
                proxy: proxy.clone(),
            }),
        };
        let tls = match tls.filter(|_| to_server) {
            Some(tls) => {
                let name = settings.tls_server_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(server.host());
                let name = ServerName::try_from(name.to_owned())
                    .map_err(|_| Error::Server { reason: "has a host that no certificate can be for" })?;
                Some((tls, name))
            }
            None => None,
        };
        let (usual, made) = (Arc::default(), Arc::default());
        let session = tls.as_ref().map(|(tls, name)| Ok((tls.session(None)?, name.clone()))).transpose()?;
        let first =
            Generation { credential: Credential::default(), pool: pool(&settings, &route, session, &usual, &made) };
        let current = ArcSwap::from_pointee(first);
        Ok(Self { shared: Arc::new(Shared { settings, route, tls, usual, made, current, turn: Mutex::new(()) }) })
    }

    /// From now on requests go out with this credential. One with a lower number than the current is ignored, so that
    /// a caller who comes late does not undo what happened meanwhile.
    ///
    /// A new token takes effect on the open connections. A new certificate needs new ones: the old ones are closed,
    /// those in use when their last request has ended or the drain limit is over. The limit is kept by a task in
    /// the caller's runtime; without a runtime there is no limit.
    ///
    /// # Errors
    /// What is wrong with the certificate. The current credential stays.
    pub fn publish(&self, mut credential: Credential) -> Result<(), Error> {
        if let Some(authorization) = &mut credential.authorization {
            authorization.set_sensitive(true);
        }
        let shared = &self.shared;
        let _turn = shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let current = shared.current.load_full();
        if credential.serial < current.credential.serial {
            return Ok(());
        }
        let serial = credential.serial;
        if credential.shares_connections(&current.credential) {
            shared.current.store(Arc::new(Generation { credential, pool: current.pool.clone() }));
            tracing::debug!(serial, host = %shared.settings.server, "the credential is replaced, the connections stay");
            return Ok(());
        }
        let pool = shared.pool(&credential)?;
        shared.current.store(Arc::new(Generation { credential, pool }));
        tracing::debug!(serial, host = %shared.settings.server, "the client certificate or the route is replaced, and the connections with it");
        self.shared.settle(&current.pool);
        Ok(())
    }

    /// Returns when there is a connection that a request could take: with an `upgrade`, or without. One that is made for
    /// it is there for others if the caller does not wait.
    ///
    /// # Errors
    /// When none could be made.
    pub async fn connect(&self, upgrade: bool) -> Result<(), Error> {
        self.shared.current.load_full().pool.connect(upgrade).await
    }

    /// Closes all connections, as if the certificate had been replaced, and forgets TLS sessions: for one whose key is
    /// not there any more.
    ///
    /// # Errors
    /// What is wrong with the certificate.
    pub fn hang_up(&self) -> Result<(), Error> {
        let shared = &self.shared;
        let _turn = shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let current = shared.current.load_full();
        let credential = current.credential.clone();
        let pool = shared.pool(&credential)?;
        shared.current.store(Arc::new(Generation { credential, pool }));
        shared.settle(&current.pool);
        Ok(())
    }

    /// The number of the credential that is sent now.
    pub fn serial(&self) -> u64 {
        self.shared.current.load().credential.serial
    }

    /// How many connections were made so far, each with a TLS handshake of its own.
    pub fn connections(&self) -> u64 {
        self.shared.made.load(Relaxed)
    }

    /// Sends a request and waits for the head of the answer. Its path is taken as it is; a URL for another server is
    /// refused.
    ///
    /// A request that the server has not processed is sent again, with the credential of that moment, and a GET also
    /// if the connection turns out to have been dead. Nothing else is ever sent twice. A request with `Upgrade`
    /// goes over HTTP/1.1; take the stream with `hyper::upgrade::on`.
    ///
    /// # Errors
    /// When there is no answer. Any answer is `Ok`.
    pub async fn send(&self, mut request: Request<Payload>) -> Result<Response<Body>, Error> {
        self.shared.settings.server.address(&mut request)?;
        let mut call = Call::new(request, self.shared.settings.replays);
        loop {
            let current = self.shared.current.load_full();
            let Some(request) = call.next(current.credential.authorization.as_ref()) else {
                return Err(Error::Stopped { host: self.shared.settings.server.name().clone() });
            };
            match current.pool.attempt(request, call.upgrade).await {
                Ok(mut response) => {
                    response.extensions_mut().insert(SentWith(current.credential.serial));
                    return Ok(response);
                }
                Err(failed) => {
                    let route = current.credential.route.as_ref().filter(|route| route.is_renewable());
                    match (route, call.wants_another_route(&failed)) {
                        (Some(route), true) => {
                            let gone = call.take_back(failed);
                            self.publish(route.renew(current.credential.serial, gone).await?)?;
                        }
                        // It may have been heard of, so it is not sent again; but whoever comes next needs another.
                        (Some(route), false) if call.leaves_route(&failed) => {
                            let other = route.renew(current.credential.serial, failed.error.clone()).await;
                            // If there is none, the next one finds out for itself.
                            let _ = other.and_then(|other| self.publish(other));
                            return Err(failed.error);
                        }
                        (route, _) => {
                            let broke = failed.failure.is_break();
                            call.again(failed)?;
                            if broke && route.is_some() {
                                self.shared.settings.clock.sleep(LAST_BREATH).await;
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Shared {
    /// Connections for this credential.
    fn pool(&self, credential: &Credential) -> Result<Arc<Pool>, Error> {
        let route = credential.route.as_ref().unwrap_or(&self.route);
        let identity = credential.identity.clone();
        let session = match (credential.route.as_ref().map(|route| route.hop()), &self.tls) {
            (Some(Some(hop)), _) => Some(self.hop(hop, identity)?),
            (Some(None), _) if route.is_private() => None,
            (_, Some((tls, name))) => Some((tls.session(identity)?, name.clone())),
            (_, None) => None,
        };
        // Somebody on the way takes as many requests at once as they like.
        let usual = if credential.route.is_some() { &Arc::default() } else { &self.usual };
        Ok(pool(&self.settings, route, session, usual, &self.made))
    }

    fn hop(&self, hop: Hop, identity: Option<Identity>) -> Result<(Session, ServerName<'static>), Error> {
        let name = ServerName::try_from(hop.name)
            .map_err(|_| Error::ExecProxy { reason: "its address has a host that no certificate can be for".into() })?;
        let tls = Tls::for_hop(self.settings.crypto.clone(), hop.roots, self.settings.clock.clone())
            .map_err(|error| Error::ExecProxy { reason: error.to_string() })?;
        Ok((tls.session(identity)?, name))
    }

    /// Lets an old pool run dry.
    fn settle(&self, pool: &Pool) {
        pool.retire();
        let Some(limit) = self.settings.drain else { return };
        let (gate, clock) = (pool.dialler.gate.clone(), self.settings.clock.clone());
        match tokio::runtime::Handle::try_current() {
            // It holds the gate and not the generation, so it keeps nothing open.
            Ok(runtime) => drop(runtime.spawn(async move { gate.drain(limit, &*clock).await })),
            Err(_) => tracing::debug!("no runtime to keep the drain limit"),
        }
    }
}

fn pool(
    settings: &Settings,
    route: &Arc<dyn Route>,
    tls: Option<(Session, ServerName<'static>)>,
    usual: &Arc<Usual>,
    made: &Arc<AtomicU64>,
) -> Arc<Pool> {
    let dialler = Dialler {
        server: settings.server.clone(),
        route: route.clone(),
        tls,
        limits: settings.limits.clone(),
        clock: settings.clock.clone(),
        gate: Gate::default(),
        made: made.clone(),
    };
    Pool::new(dialler, settings.tuning.clone(), usual.clone())
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.shared.settings.server).field("serial", &self.serial()).finish()
    }
}

impl tower_service::Service<Request<Payload>> for Client {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    /// Always: limits are the server's, and are kept by the pool.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}
