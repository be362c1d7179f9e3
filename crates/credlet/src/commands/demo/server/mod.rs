//! The API server of the demo: TLS, HTTP/2 and HTTP/1.1 on loopback, with a few namespaces.
//!
//! [`tls`] accepts any client certificate or none, [`authn`] authenticates the request or returns `401`, [`route`] produces the response,
//! and the [`RequestLog`] receives a record of it.

mod authn;
mod documents;
mod namespaces;
mod query;
mod response;
mod route;
mod tls;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use credlet_exec::Clock;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use self::authn::RequestAuthenticator;
pub(super) use self::authn::{AuthenticatedUser, AuthnFailure, CredentialId};
use self::namespaces::NamespaceStore;
use self::response::{ResponseBody, StatusError};
use super::ca::DemoCa;
use super::cluster::SetupError;
use super::token::TokenVerifier;

/// Time limit of the TLS handshake, and of the head of an HTTP/1.1 request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Default of kube-apiserver.
const MAX_STREAMS: u32 = 250;

/// Called for every request before the response is sent.
pub(super) type RequestLog = dyn Fn(&RequestRecord) + Send + Sync;

/// A request and its result.
pub(super) struct RequestRecord {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) user: Result<AuthenticatedUser, AuthnFailure>,
    pub(super) code: StatusCode,
}

/// The running server. Dropping it closes its port and all connections.
pub(super) struct DemoApiServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    tasks: [JoinHandle<()>; 2],
}

struct ServerState {
    authn: RequestAuthenticator,
    namespaces: NamespaceStore,
    log: Box<RequestLog>,
}

impl DemoApiServer {
    /// Listens on a free port. One of the namespaces changes every `changes_every`.
    pub(super) async fn start(
        authority: &DemoCa,
        tokens: TokenVerifier,
        clock: Arc<dyn Clock>,
        changes_every: Duration,
        log: Box<RequestLog>,
    ) -> Result<Self, SetupError> {
        let tls = TlsAcceptor::from(tls::config(&authority.server(clock.now())?)?);
        let certificates = tls::client_certificates(authority)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let namespaces = NamespaceStore::new(Arc::clone(&clock));
        let authn = RequestAuthenticator { certificates, tokens, clock, revoked: Default::default() };
        let changing = tokio::spawn(namespaces.clone().run_changes(changes_every));
        let shared = Arc::new(ServerState { authn, namespaces, log });
        let serving = tokio::spawn(serve(listener, tls, Arc::clone(&shared)));
        Ok(Self { address, shared, tasks: [changing, serving] })
    }

    /// Returns the value of `server` for a kubeconfig.
    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Revokes the token with this id.
    pub(super) fn revoke(&self, id: &str) {
        self.shared.authn.revoke(id);
    }
}

impl Drop for DemoApiServer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, shared: Arc<ServerState>) {
    // Aborting this task drops the set, which aborts all connections.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(serve_connection(stream, tls.clone(), Arc::clone(&shared)))),
            // Usually out of file descriptors, which is temporary.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves a connection. Errors are not logged: the client sees them.
async fn serve_connection(stream: TcpStream, tls: TlsAcceptor, shared: Arc<ServerState>) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await else { return };
    let chain: Option<Arc<[CertificateDer<'static>]>> = stream
        .get_ref()
        .1
        .peer_certificates()
        .map(|chain| chain.iter().map(|certificate| certificate.clone().into_owned()).collect());
    let service = service_fn(move |request| handle(Arc::clone(&shared), chain.clone(), request));
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
    http.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(
    shared: Arc<ServerState>,
    chain: Option<Arc<[CertificateDer<'static>]>>,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Infallible> {
    let user = shared.authn.authenticate(chain.as_deref(), request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let routed = match &user {
        Ok(user) => route::respond(request, user, &shared.namespaces).await,
        Err(_) => Err(StatusError::Unauthorized),
    };
    let response = routed.unwrap_or_else(|error| error.into_response());
    (shared.log)(&RequestRecord { method, path, user, code: response.status() });
    Ok(response)
}
