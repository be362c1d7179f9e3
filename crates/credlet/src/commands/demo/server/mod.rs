//! The demo's API server: on loopback, with real TLS, HTTP/2 and HTTP/1.1, and nothing in it but a few namespaces.
//!
//! **The path of a request:** [`tls`] takes any certificate or none → [`gate`] says who is asking, or `401` →
//! [`route`] finds the answer → the [`Log`] is told.

mod documents;
mod gate;
mod namespaces;
mod query;
mod reply;
mod route;
mod tls;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use credlet_core::Clock;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use self::gate::Gate;
pub(super) use self::gate::{Credential, Refusal, User};
use self::namespaces::Namespaces;
use self::reply::{Body, No};
use super::authority::Authority;
use super::stage::SetupError;
use super::token::Verifier;

/// A client that says nothing is not kept.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// As the real one.
const MAX_STREAMS: u32 = 250;

/// Is told of every request when its answer begins.
pub(super) type Log = dyn Fn(&Record) + Send + Sync;

/// A request, as the server saw it.
pub(super) struct Record {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) who: Result<User, Refusal>,
    pub(super) code: StatusCode,
}

/// The running server. Dropping it closes its port and all its connections.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

struct Shared {
    gate: Gate,
    namespaces: Namespaces,
    log: Box<Log>,
}

impl Server {
    /// Listens at a free port. One of its namespaces changes every so often.
    pub(super) async fn start(
        authority: &Authority,
        tokens: Verifier,
        clock: Arc<dyn Clock>,
        changes_every: Duration,
        log: Box<Log>,
    ) -> Result<Self, SetupError> {
        let tls = TlsAcceptor::from(tls::config(&authority.server(clock.now())?)?);
        let certificates = tls::client_certificates(authority)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let namespaces = Namespaces::new(Arc::clone(&clock));
        let gate = Gate { certificates, tokens, clock, revoked: Default::default() };
        let beating = tokio::spawn(namespaces.clone().beat(changes_every));
        let shared = Arc::new(Shared { gate, namespaces, log });
        let serving = tokio::spawn(serve(listener, tls, Arc::clone(&shared)));
        Ok(Self { address, shared, tasks: [beating, serving] })
    }

    /// Where it is, as a kubeconfig has it.
    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// From now on it refuses the token of this id.
    pub(super) fn revoke(&self, id: &str) {
        self.shared.gate.revoke(id);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    // Ends with the task that owns it, and all connections with it.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(connection(stream, tls.clone(), Arc::clone(&shared)))),
            // Out of file descriptors, most likely: it will pass.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// What goes wrong on a connection is the client's to see.
async fn connection(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    // Small answers, each of which somebody waits for.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await else { return };
    let chain: Option<Arc<[CertificateDer<'static>]>> = stream
        .get_ref()
        .1
        .peer_certificates()
        .map(|chain| chain.iter().map(|certificate| certificate.clone().into_owned()).collect());
    let service = service_fn(move |request| handle(Arc::clone(&shared), chain.clone(), request));
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    http.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(
    shared: Arc<Shared>,
    chain: Option<Arc<[CertificateDer<'static>]>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let who = shared.gate.admit(chain.as_deref(), request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answer = match &who {
        Ok(user) => route::answer(request, user, &shared.namespaces).await,
        Err(_) => Err(No::Unauthorized),
    };
    let response = answer.unwrap_or_else(|no| no.reply());
    (shared.log)(&Record { method, path, who, code: response.status() });
    Ok(response)
}
