use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// A client with one identity and one store of sessions.
struct Client {
    config: ClientConfig,
    address: SocketAddr,
}

enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    fn new(server: &FakeApiServer, ca: &TestCa, identity: Option<&TestIdentity>, alpn: &[&str]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(ca.der()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            Some(identity) => builder.with_client_auth_cert(vec![identity.cert_der()], identity.key_der()).unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self { config, address: server.address() }
    }

    async fn dial(&self) -> io::Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(self.config.clone())).connect("127.0.0.1".try_into().unwrap(), tcp).await
    }

    async fn connect(&self) -> Connection {
        let tls = self.dial().await.expect("a connection");
        if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
            tokio::spawn(connection);
            Connection::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(TokioIo::new(tls)).await.unwrap();
            tokio::spawn(connection);
            Connection::Http1(sender)
        }
    }
}

impl Connection {
    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }

    async fn get(&mut self, path: &str, token: Option<&str>) -> hyper::Result<Response<Incoming>> {
        let mut request = Request::get(format!("https://127.0.0.1{path}"));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request.body(Full::default()).unwrap()).await
    }

    async fn status(&mut self, token: Option<&str>) -> u16 {
        let response = self.get("/readyz", token).await.unwrap();
        let status = response.status().as_u16();
        response.into_body().collect().await.unwrap();
        status
    }

    async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }
}

async fn json(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

const H1: &[&str] = &["http/1.1"];
const H2: &[&str] = &["h2", "http/1.1"];

#[tokio::test]
async fn records_requests() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let identity = ca.client("jane").organisations(["dev"]).issue();
    for (n, alpn) in [(1, H2), (2, H1)] {
        let mut connection = Client::new(&server, &ca, Some(&identity), alpn).connect().await;
        let request = Request::post("https://127.0.0.1/echo?a=b")
            .header("authorization", "Bearer t")
            .header("x-two", "1")
            .header("x-two", "2")
            .body("hello".into())
            .unwrap();
        let echo = json(connection.send(request).await.unwrap()).await;
        assert_eq!(echo["body"], "hello");
        let seen: SeenRequest = serde_json::from_value(echo).unwrap();
        assert_eq!((seen.number, seen.connection, seen.resumed), (n, n, false));
        assert_eq!((seen.method.as_str(), seen.bearer()), ("POST", Some("t")));
        assert!(seen.path.ends_with("/echo?a=b"), "{}", seen.path);
        assert_eq!(seen.headers.iter().filter(|(name, _)| name == "x-two").count(), 2);
        assert_eq!(seen.alpn.as_deref(), alpn.first().copied());
        assert_eq!(seen.common_name(), Some("jane"));
        let peer = seen.peer.as_ref().unwrap();
        assert_eq!((peer.organisations.as_slice(), peer.serial.as_str()), (&["dev".to_owned()][..], identity.serial()));
        assert_eq!(server.last_request(), seen);
    }
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn threaded_server_closes_port_on_drop() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start_in_thread();
    let client = Client::new(&server, &ca, None, H2);
    let mut connection = client.connect().await;
    assert_eq!(connection.status(None).await, 200);
    drop(server);
    assert!(TcpStream::connect(client.address).await.is_err());
    assert!(connection.get("/readyz", None).await.is_err());
}

#[tokio::test]
async fn restarts_at_same_address() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let client = Client::new(&server, &ca, None, H2);
    assert_eq!(client.connect().await.status(None).await, 200);
    server.stop().await;
    assert!(TcpStream::connect(client.address).await.is_err());
    let server = FakeApiServer::setup(&ca).at(client.address).start();
    assert_eq!(client.connect().await.status(None).await, 200);
    assert_eq!(server.counts().resumed_handshakes, 0, "it has new keys for its tickets");
}

#[tokio::test]
async fn endpoints_respond_like_api_server() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let mut connection = Client::new(&server, &ca, None, H2).connect().await;
    assert_eq!(json(connection.get("/version", None).await.unwrap()).await["major"], "1");
    let namespaces = json(connection.get("/api/v1/namespaces", None).await.unwrap()).await;
    assert_eq!(namespaces["items"][0]["metadata"]["name"], "default");
    let missing = connection.get("/nowhere", None).await.unwrap();
    assert_eq!(missing.status(), 404);
    assert_eq!(json(missing).await["reason"], "NotFound");
}

#[tokio::test]
async fn watch_streams_events() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    for alpn in [H1, H2] {
        let mut connection = Client::new(&server, &ca, None, alpn).connect().await;
        let response = connection.get("/watch?interval_ms=1&count=3", None).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let lines: Vec<Value> =
            body.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2]["object"]["metadata"]["resourceVersion"], "3");
        // Without a count the stream is endless; the first line is sent at once.
        let mut endless = connection.get("/watch?interval_ms=3600000", None).await.unwrap().into_body();
        assert!(endless.frame().await.unwrap().unwrap().is_data());
        assert!(timeout(Duration::from_millis(50), endless.frame()).await.is_err());
    }
}

#[tokio::test]
async fn accepts_only_listed_credentials() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let jane = ca.client("jane").organisations(["dev"]).issue();
    let mut with_certificate = Client::new(&server, &ca, Some(&jane), H2).connect().await;
    let mut without = Client::new(&server, &ca, None, H2).connect().await;
    assert_eq!(without.status(None).await, 200, "everybody, to begin with");

    server.accept_token_as("good", "joe");
    assert_eq!(without.status(Some("good")).await, 200);
    assert_eq!(without.status(Some("bad")).await, 401);
    assert_eq!(without.status(None).await, 401);
    assert_eq!(with_certificate.status(None).await, 401);

    server.accept_client("jane");
    assert_eq!(with_certificate.status(Some("bad")).await, 200);
    let review = |request: hyper::http::request::Builder| request.body(Full::default()).unwrap();
    let path = "https://127.0.0.1/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = json(with_certificate.send(review(Request::post(path))).await.unwrap()).await;
    assert_eq!(answer["status"]["userInfo"], serde_json::json!({ "username": "jane", "groups": ["dev"] }));
    let request = review(Request::post(path).header("authorization", "Bearer good"));
    assert_eq!(json(without.send(request).await.unwrap()).await["status"]["userInfo"]["username"], "joe");

    server.revoke_token("good");
    let refused = without.get("/version", Some("good")).await.unwrap();
    assert_eq!(refused.status(), 401);
    let status = json(refused).await;
    assert_eq!(
        (&status["kind"], &status["reason"], &status["code"]),
        (&"Status".into(), &"Unauthorized".into(), &401.into())
    );
    server.revoke_all();
    assert_eq!(with_certificate.status(None).await, 401);
}

#[tokio::test]
async fn resumed_session_keeps_identity() {
    let ca = TestCa::new();
    for tls12 in [false, true] {
        let setup = FakeApiServer::setup(&ca);
        let server = if tls12 { setup.tls12_only() } else { setup }.start();
        let client = Client::new(&server, &ca, Some(&ca.client("jane").issue()), H2);
        assert_eq!(client.connect().await.status(None).await, 200);
        assert_eq!(client.connect().await.status(None).await, 200);
        let seen = server.requests();
        assert_eq!([seen[0].resumed, seen[1].resumed], [false, true]);
        assert_eq!(seen[1].common_name(), Some("jane"));
        let counts = server.counts();
        assert_eq!((counts.connections, counts.handshakes, counts.resumed_handshakes), (2, 2, 1));
    }
}

#[tokio::test]
async fn client_certificates_required_or_off() {
    let ca = TestCa::new();
    let jane = ca.client("jane").issue();
    let required = FakeApiServer::setup(&ca).client_certificates(ClientCertificates::Required).start();
    assert_eq!(Client::new(&required, &ca, Some(&jane), H2).connect().await.status(None).await, 200);
    // In TLS 1.3 the client completes the handshake before the server has verified its certificate.
    drop(Client::new(&required, &ca, None, H2).dial().await);
    required.until(|counts| counts.failed_handshakes == 1).await;
    let stranger = TestCa::new().client("jane").issue();
    drop(Client::new(&required, &ca, Some(&stranger), H2).dial().await);
    required.until(|counts| counts.failed_handshakes == 2).await;

    let off = FakeApiServer::setup(&ca).client_certificates(ClientCertificates::Off).start();
    assert_eq!(Client::new(&off, &ca, Some(&jane), H2).connect().await.status(None).await, 200);
    assert_eq!(off.last_request().peer, None);
}

#[tokio::test]
async fn alpn_protocols_can_be_set() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).alpn(["http/1.1"]).start();
    assert!(matches!(Client::new(&server, &ca, None, H2).connect().await, Connection::Http1(_)));
    let server = FakeApiServer::setup(&ca).alpn([]).start();
    assert_eq!(Client::new(&server, &ca, None, H2).connect().await.status(None).await, 200);
    assert_eq!(server.last_request().alpn, None);
}

#[tokio::test]
async fn stream_limit_can_be_set() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).max_concurrent_streams(2).start();
    let tls = Client::new(&server, &ca, None, H2).dial().await.unwrap();
    let (mut sender, connection) =
        http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
    let connection = tokio::spawn(async move {
        let mut connection = Box::pin(connection);
        let mut limit = 0;
        // Completes when its sender is dropped, below.
        let _ = std::future::poll_fn(|cx| {
            let polled = connection.as_mut().poll(cx);
            limit = connection.current_max_send_streams();
            polled
        })
        .await;
        limit
    });
    let request = Request::get("https://127.0.0.1/readyz").body(Full::default()).unwrap();
    sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    drop(sender);
    assert_eq!(connection.await.unwrap(), 2);
}

#[tokio::test]
async fn faults_apply_to_next_requests() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let mut connection = Client::new(&server, &ca, None, H2).connect().await;
    server.next(2, FaultOrder::Status(401));
    server.next(1, FaultOrder::Status(503));
    for expected in [401, 401, 503, 200] {
        assert_eq!(connection.status(None).await, expected);
    }
    server.next(1, FaultOrder::Status(500));
    server.clear_orders();
    assert_eq!(connection.status(None).await, 200);
}

#[tokio::test]
async fn cut_precedes_first_byte() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    for alpn in [H1, H2] {
        let client = Client::new(&server, &ca, None, alpn);
        let mut connection = client.connect().await;
        server.next(1, FaultOrder::Cut);
        assert!(connection.get("/readyz", None).await.is_err());
        server.until(|counts| counts.open_connections == 0).await;
        assert_eq!(client.connect().await.status(None).await, 200);
        server.until(|counts| counts.open_connections == 0).await;
    }
}

#[tokio::test]
async fn cut_is_tcp_reset() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let mut tls = Client::new(&server, &ca, None, H1).dial().await.unwrap();
    server.next(1, FaultOrder::Cut);
    tls.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // Session tickets may come first; a clean end of the stream must not come.
    assert_eq!(tls.read(&mut [0; 9]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn cut_mid_body_follows_partial_body() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    for alpn in [H1, H2] {
        let mut connection = Client::new(&server, &ca, None, alpn).connect().await;
        server.next(1, FaultOrder::CutMidBody);
        let response = connection.get("/readyz", None).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-length"]),
            (200, &"32768".parse().unwrap())
        );
        let mut body = response.into_body();
        assert!(body.frame().await.unwrap().unwrap().is_data());
        let error = loop {
            if let Err(error) = body.frame().await.expect("no clean end") {
                break error;
            }
        };
        assert!(!error.is_timeout());
    }
}

#[tokio::test]
async fn stalled_request_gets_no_response() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let mut connection = Client::new(&server, &ca, None, H2).connect().await;
    server.next(1, FaultOrder::Stall);
    let stalled = async { timeout(Duration::from_millis(100), connection.get("/readyz", None)).await.is_err() };
    let (unanswered, seen) = tokio::join!(stalled, server.until(|counts| counts.requests == 1));
    assert!(unanswered && seen.requests == 1);
    assert_eq!(connection.status(None).await, 200, "the others on the connection go on");
}

#[tokio::test]
async fn stalled_handshake_can_resume() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let client = Client::new(&server, &ca, None, H2);
    server.hang_in_handshakes(true);
    let mut dial = Box::pin(client.dial());
    tokio::select! {
        _ = &mut dial => panic!("the handshake must hang"),
        counts = server.until(|counts| counts.connections == 1) => assert_eq!(counts.handshakes, 0),
    }
    assert!(timeout(Duration::from_millis(50), &mut dial).await.is_err());
    server.hang_in_handshakes(false);
    assert!(dial.await.is_ok());

    server.hang_in_handshakes(true);
    let (dialled, ()) = tokio::join!(client.dial(), async {
        server.until(|counts| counts.connections == 2).await;
        server.cut_all();
    });
    assert!(dialled.is_err());
}

#[tokio::test]
async fn graceful_shutdown_completes_requests() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    for alpn in [H1, H2] {
        let client = Client::new(&server, &ca, None, alpn);
        let mut connection = client.connect().await;
        let mut watch = connection.get("/watch?interval_ms=20&count=4", None).await.unwrap().into_body();
        watch.frame().await.unwrap().unwrap();
        server.go_away();
        let rest = watch.collect().await.expect("the watch to end in peace").to_bytes();
        assert_eq!(rest.iter().filter(|byte| **byte == b'\n').count(), 3);
        server.until(|counts| counts.open_connections == 0).await;
        assert!(connection.ready().await.is_err() || connection.get("/readyz", None).await.is_err());
        assert_eq!(client.connect().await.status(None).await, 200);
        server.until(|counts| counts.open_connections == 0).await;
    }
}

#[tokio::test]
async fn rotated_certificate_is_used_next() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let client = Client::new(&server, &ca, None, H2);
    let mut connection = client.connect().await;
    let next = ca.server().issue();
    server.rotate(next.clone());
    let tls = client.dial().await.unwrap();
    assert_eq!(tls.get_ref().1.peer_certificates().unwrap()[0], next.cert_der());
    assert_eq!(connection.status(None).await, 200);

    let stranger = TestCa::new();
    server.rotate(stranger.server().issue());
    let fresh = Client::new(&server, &ca, None, H2);
    assert!(fresh.dial().await.is_err());
    assert!(Client::new(&server, &stranger, None, H2).dial().await.is_ok());
}
