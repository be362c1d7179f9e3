//! API server that reports its clients, holds watches open, and sends GOAWAY or drops connections on request.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use credlet_testkit::ca::{TestCa, TestIdentity};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::channel::Channel;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, broadcast, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) struct FakeServer {
    pub(crate) ca: TestCa,
    pub(crate) at: SocketAddr,
    pub(crate) seen: Arc<Observations>,
    accepting: tokio::task::JoinHandle<()>,
}

pub(crate) const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
pub(crate) const TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// FakeServerOptions of the server.
pub(crate) struct FakeServerOptions {
    /// Value of SETTINGS_MAX_CONCURRENT_STREAMS.
    pub(crate) streams: u32,
    pub(crate) alpn: Vec<&'static str>,
    pub(crate) versions: &'static [&'static SupportedProtocolVersion],
    /// FakeServer certificate. Default: one of its own CA.
    pub(crate) identity: Option<TestIdentity>,
    /// Whether client certificates are required.
    pub(crate) mutual: bool,
    /// Port. Default: a free one.
    pub(crate) port: u16,
}

impl Default for FakeServerOptions {
    fn default() -> Self {
        Self {
            streams: 100,
            alpn: vec!["h2", "http/1.1"],
            versions: rustls::DEFAULT_VERSIONS,
            identity: None,
            mutual: false,
            port: 0,
        }
    }
}

/// Observations of the server and commands to it.
pub(crate) struct Observations {
    pub(crate) accepted: AtomicUsize,
    pub(crate) resumed: AtomicUsize,
    /// Number of open connections.
    pub(crate) live: AtomicUsize,
    /// Number of arrivals of each body at `/once`.
    pub(crate) arrived: Mutex<HashMap<String, usize>>,
    /// Number of requests waiting at `/slow`.
    pub(crate) waiting: AtomicUsize,
    pub(crate) answer_slow: Notify,
    orders: watch::Sender<(u64, Order)>,
    events: broadcast::Sender<Bytes>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Goodbye,
    Die,
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        Self::with(FakeServerOptions::default()).await
    }

    pub(crate) async fn with(options: FakeServerOptions) -> Self {
        Self::under(TestCa::new(), options).await
    }

    pub(crate) async fn under(ca: TestCa, options: FakeServerOptions) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", options.port)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls(&ca, &options)));
        let seen = Arc::new(Observations {
            accepted: AtomicUsize::new(0),
            resumed: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            arrived: Mutex::default(),
            waiting: AtomicUsize::new(0),
            answer_slow: Notify::new(),
            orders: watch::Sender::new((0, Order::Goodbye)),
            events: broadcast::Sender::new(64),
        });
        let state = seen.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((tcp, _)) = listener.accept().await else { continue };
                tcp.set_nodelay(true).unwrap();
                let number = state.accepted.fetch_add(1, SeqCst) + 1;
                let (acceptor, state) = (acceptor.clone(), state.clone());
                tokio::spawn(async move {
                    // Commands from here on reach this connection, also during its handshake.
                    let mut orders = state.orders.subscribe();
                    if let Ok(stream) = acceptor.accept(tcp).await {
                        state.live.fetch_add(1, SeqCst);
                        serve(stream, &state, number, &mut orders, options.streams).await;
                        state.live.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
        Self { ca, at, seen, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.at)
    }

    pub(crate) fn accepted(&self) -> usize {
        self.seen.accepted.load(SeqCst)
    }

    pub(crate) fn live(&self) -> usize {
        self.seen.live.load(SeqCst)
    }

    pub(crate) fn resumed(&self) -> usize {
        self.seen.resumed.load(SeqCst)
    }

    /// Sends GOAWAY on every open connection. Requests in flight continue.
    pub(crate) fn send_goaway(&self) {
        self.order(Order::Goodbye);
    }

    /// Drops every open connection immediately.
    pub(crate) fn drop_connections(&self) {
        self.order(Order::Die);
    }

    /// Sends an event to all watches.
    pub(crate) fn tell(&self, event: &'static str) {
        let _ = self.seen.events.send(Bytes::from_static(event.as_bytes()));
    }

    /// Stops listening and drops every connection.
    pub(crate) async fn stop(self) -> TestCa {
        self.accepting.abort();
        self.drop_connections();
        let _ = self.accepting.await;
        super::until(|| self.seen.live.load(SeqCst) == 0).await;
        self.ca
    }

    fn order(&self, order: Order) {
        self.seen.orders.send_modify(|current| *current = (current.0 + 1, order));
    }
}

fn tls(ca: &TestCa, options: &FakeServerOptions) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.der()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let clients = if options.mutual { clients } else { clients.allow_unauthenticated() };
    let own = options.identity.clone().unwrap_or_else(|| ca.server().issue());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(options.versions)
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(vec![own.cert_der()], own.key_der())
        .unwrap();
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    config.alpn_protocols = options.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

async fn serve(
    stream: TlsStream<TcpStream>,
    state: &Arc<Observations>,
    number: usize,
    orders: &mut watch::Receiver<(u64, Order)>,
    streams: u32,
) {
    let tls = stream.get_ref().1;
    if tls.handshake_kind() == Some(HandshakeKind::Resumed) {
        state.resumed.fetch_add(1, SeqCst);
    }
    let user = tls.peer_certificates().and_then(|chain| chain.first()).map_or("nobody".into(), |der| {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).unwrap();
        certificate.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned()
    });
    let http2 = tls.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let (state, user) = (state.clone(), user.clone());
        async move { Ok::<_, Infallible>(answer(request, &state, &user, number, http2).await) }
    });
    macro_rules! run {
        ($connection:expr) => {{
            let mut connection = std::pin::pin!($connection);
            loop {
                tokio::select! {
                    _ = connection.as_mut() => return,
                    _ = orders.changed() => match orders.borrow_and_update().1 {
                        Order::Die => return,
                        Order::Goodbye => connection.as_mut().graceful_shutdown(),
                    }
                }
            }
        }};
    }
    let io = TokioIo::new(stream);
    if http2 {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_concurrent_streams(streams);
        run!(builder.serve_connection(io, service))
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new());
        run!(builder.serve_connection(io, service).with_upgrades())
    }
}

type FakeResponse = Response<BoxBody<Bytes, Infallible>>;

async fn answer(
    mut request: Request<Incoming>,
    state: &Observations,
    user: &str,
    number: usize,
    http2: bool,
) -> FakeResponse {
    let token = token(request.headers());
    match request.uri().path() {
        // All events, after a first one that marks the start.
        "/watch" => {
            let mut events = state.events.subscribe();
            let (mut sender, body) = Channel::new(16);
            tokio::spawn(async move {
                let _ = sender.send_data(Bytes::from_static(b"begun\n")).await;
                while let Ok(event) = events.recv().await {
                    if &event[..] == b"end" || sender.send_data(event).await.is_err() {
                        return;
                    }
                }
            });
            Response::new(body.boxed())
        }
        // More than the client reads.
        "/flood" => {
            let (mut sender, body) = Channel::new(1);
            tokio::spawn(async move { while sender.send_data(Bytes::from_static(&[b'x'; 16384])).await.is_ok() {} });
            Response::new(body.boxed())
        }
        "/once" => {
            // A truncated body has not arrived.
            if let Ok(body) = request.into_body().collect().await {
                let name = String::from_utf8(body.to_bytes().into()).unwrap();
                *state.arrived.lock().unwrap().entry(name).or_default() += 1;
            }
            whole("done")
        }
        "/slow" => {
            state.waiting.fetch_add(1, SeqCst);
            state.answer_slow.notified().await;
            state.waiting.fetch_sub(1, SeqCst);
            whole(format!("{user} {token}"))
        }
        "/length" => {
            let body = request.body_mut().collect().await.unwrap().to_bytes();
            whole(body.len().to_string())
        }
        // Echoes after an upgrade.
        "/echo" => {
            if !request.headers().contains_key("upgrade") {
                return whole("no upgrade header arrived");
            }
            tokio::spawn(async move {
                let Ok(upgraded) = hyper::upgrade::on(&mut request).await else { return };
                let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
            let mut response = whole("");
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert("connection", "upgrade".parse().unwrap());
            response.headers_mut().insert("upgrade", "echo".parse().unwrap());
            response
        }
        _ => whole(format!("{user} {token} connection={number} h2={http2}")),
    }
}

fn token(headers: &HeaderMap) -> String {
    let header = headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    header.strip_prefix("Bearer ").unwrap_or("none").to_owned()
}

fn whole(text: impl Into<Bytes>) -> FakeResponse {
    Response::new(Full::new(text.into()).boxed())
}
