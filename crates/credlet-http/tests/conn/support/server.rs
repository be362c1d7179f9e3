//! API server that reports its clients, holds watches open, and sends GOAWAY or drops connections on request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use credlet_testkit::ca::{TestCa, TestIdentity};
use credlet_testkit::server::{ClientCertificates, FakeApiServer, RequestContext, ResponseBody};
use http::{Request, Response, StatusCode};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::sync::{Notify, broadcast};

pub(crate) struct FakeServer {
    pub(crate) ca: TestCa,
    pub(crate) at: SocketAddr,
    pub(crate) seen: Arc<Observations>,
    server: FakeApiServer,
}

/// Options of the server.
pub(crate) struct FakeServerOptions {
    /// Value of SETTINGS_MAX_CONCURRENT_STREAMS.
    pub(crate) streams: u32,
    pub(crate) alpn: Vec<&'static str>,
    /// TLS 1.2 instead of 1.3.
    pub(crate) tls12: bool,
    /// Server certificate. Default: issued by the server's CA.
    pub(crate) identity: Option<TestIdentity>,
    /// Whether client certificates are required.
    pub(crate) mutual: bool,
    /// Port. Default: a free one.
    pub(crate) port: u16,
}

impl Default for FakeServerOptions {
    fn default() -> Self {
        Self { streams: 100, alpn: vec!["h2", "http/1.1"], tls12: false, identity: None, mutual: false, port: 0 }
    }
}

/// Observations of the handler and commands to it.
pub(crate) struct Observations {
    /// Number of arrivals of each body at `/once`.
    pub(crate) arrived: Mutex<HashMap<String, usize>>,
    /// Number of requests waiting at `/slow`.
    pub(crate) waiting: AtomicUsize,
    pub(crate) answer_slow: Notify,
    events: broadcast::Sender<Bytes>,
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        Self::with(FakeServerOptions::default()).await
    }

    pub(crate) async fn with(options: FakeServerOptions) -> Self {
        Self::under(TestCa::new(), options).await
    }

    pub(crate) async fn under(ca: TestCa, options: FakeServerOptions) -> Self {
        let seen = Arc::new(Observations {
            arrived: Mutex::default(),
            waiting: AtomicUsize::new(0),
            answer_slow: Notify::new(),
            events: broadcast::Sender::new(64),
        });
        let state = seen.clone();
        let mut setup = FakeApiServer::setup(&ca)
            .max_concurrent_streams(options.streams)
            .alpn(options.alpn)
            .at(([127, 0, 0, 1], options.port).into())
            .handler(move |request, context| answer(request, context, state.clone()));
        if options.tls12 {
            setup = setup.tls12_only();
        }
        if options.mutual {
            setup = setup.client_certificates(ClientCertificates::Required);
        }
        if let Some(identity) = options.identity {
            setup = setup.identity(identity);
        }
        let server = setup.start();
        Self { ca, at: server.address(), seen, server }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn accepted(&self) -> usize {
        self.server.counts().connections
    }

    pub(crate) fn live(&self) -> usize {
        self.server.counts().open_connections
    }

    pub(crate) fn resumed(&self) -> usize {
        self.server.counts().resumed_handshakes
    }

    /// Sends GOAWAY on every open connection. Requests in flight continue.
    pub(crate) fn send_goaway(&self) {
        self.server.go_away();
    }

    /// Drops every open connection immediately.
    pub(crate) fn drop_connections(&self) {
        self.server.close_connections();
    }

    /// Sends an event to all watches.
    pub(crate) fn tell(&self, event: &'static str) {
        let _ = self.seen.events.send(Bytes::from_static(event.as_bytes()));
    }

    /// Stops listening and drops every connection.
    pub(crate) async fn stop(self) -> TestCa {
        self.server.stop().await;
        self.ca
    }
}

async fn answer(
    mut request: Request<Incoming>,
    context: RequestContext,
    state: Arc<Observations>,
) -> Response<ResponseBody> {
    let client = context.record;
    let (user, token) = (client.common_name().unwrap_or("nobody"), client.bearer().unwrap_or("none"));
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
            Response::new(body.boxed_unsync())
        }
        // More than the client reads.
        "/flood" => {
            let (mut sender, body) = Channel::new(1);
            tokio::spawn(async move { while sender.send_data(Bytes::from_static(&[b'x'; 16384])).await.is_ok() {} });
            Response::new(body.boxed_unsync())
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
            let body = request.into_body().collect().await;
            whole(body.map_or_else(|error| error.to_string(), |body| body.to_bytes().len().to_string()))
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
        _ => {
            let (number, http2) = (client.connection, client.alpn.as_deref() == Some("h2"));
            whole(format!("{user} {token} connection={number} h2={http2}"))
        }
    }
}

fn whole(text: impl Into<Bytes>) -> Response<ResponseBody> {
    Response::new(Full::new(text.into()).boxed_unsync())
}
