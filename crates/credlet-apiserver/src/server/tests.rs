use http_body_util::channel::Channel;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::authn::CredentialAllowList;
use crate::response::{self, StatusError};
use crate::token::{TokenClaims, TokenSigner};

fn test_ca() -> CertificateAuthority {
    CertificateAuthority::new("test CA").unwrap()
}

/// A server that accepts every request.
fn open_server(ca: &CertificateAuthority) -> ApiServerBuilder<'_> {
    ApiServer::builder(ca).authenticator(CredentialAllowList::new())
}

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
    fn new(server: &ApiServer, ca: &CertificateAuthority, identity: Option<&Identity>, alpn: &[&str]) -> Self {
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

/// Sends a request on a new connection. Returns the status and the JSON body.
async fn get(
    server: &ApiServer,
    ca: &CertificateAuthority,
    identity: Option<&Identity>,
    token: Option<&str>,
    path: &str,
) -> (u16, Value) {
    let mut connection = Client::new(server, ca, identity, H2).connect().await;
    let response = connection.get(path, token).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn records_requests() {
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    let identity = ca.client("jane").organizations(["dev"]).issue().unwrap();
    for (n, alpn) in [(1, H2), (2, H1)] {
        let mut connection = Client::new(&server, &ca, Some(&identity), alpn).connect().await;
        let request = Request::post("https://127.0.0.1/version?a=b")
            .header("authorization", "Bearer t")
            .header("x-two", "1")
            .header("x-two", "2")
            .body("hello".into())
            .unwrap();
        assert_eq!(connection.send(request).await.unwrap().status(), 405);
        let seen = server.last_request().unwrap();
        assert_eq!((seen.number, seen.connection, seen.resumed), (n, n, false));
        assert_eq!((seen.method.as_str(), seen.bearer()), ("POST", Some("t")));
        assert_eq!((seen.path.as_str(), seen.path_only()), ("/version?a=b", "/version"));
        assert_eq!(seen.headers.iter().filter(|(name, _)| name == "x-two").count(), 2);
        assert_eq!(seen.alpn.as_deref(), alpn.first().copied());
        assert_eq!(seen.common_name(), Some("jane"));
        let peer = seen.peer.as_ref().unwrap();
        assert_eq!((peer.organizations.as_slice(), peer.serial.as_str()), (&["dev".to_owned()][..], identity.serial()));
        let text = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<RecordedRequest>(&text).unwrap(), seen);
    }
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn threaded_server_closes_port_on_drop() {
    let ca = test_ca();
    let server = open_server(&ca).start_in_thread().unwrap();
    let client = Client::new(&server, &ca, None, H2);
    let mut connection = client.connect().await;
    assert_eq!(connection.status(None).await, 200);
    drop(server);
    assert!(TcpStream::connect(client.address).await.is_err());
    assert!(connection.get("/readyz", None).await.is_err());
}

#[tokio::test]
async fn restarts_at_same_address() {
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    let client = Client::new(&server, &ca, None, H2);
    assert_eq!(client.connect().await.status(None).await, 200);
    server.stop().await;
    assert!(TcpStream::connect(client.address).await.is_err());
    let server = open_server(&ca).bind(client.address).start().unwrap();
    assert_eq!(client.connect().await.status(None).await, 200);
    assert_eq!(server.counts().resumed_handshakes, 0, "it has new keys for its tickets");
}

#[tokio::test]
async fn accepts_only_listed_credentials() {
    let ca = test_ca();
    let credentials = Arc::new(CredentialAllowList::new());
    let server = ApiServer::builder(&ca).authenticator(Arc::clone(&credentials)).start().unwrap();
    let jane = ca.client("jane").organizations(["dev"]).issue().unwrap();
    let mut with_certificate = Client::new(&server, &ca, Some(&jane), H2).connect().await;
    let mut without = Client::new(&server, &ca, None, H2).connect().await;
    assert_eq!(without.status(None).await, 200, "accepts every request until the first call");

    credentials.accept_token("good", "joe");
    assert_eq!(without.status(Some("good")).await, 200);
    assert_eq!(without.status(Some("bad")).await, 401);
    assert_eq!(without.status(None).await, 401);
    assert_eq!(with_certificate.status(None).await, 401);

    credentials.accept_client("jane");
    assert_eq!(with_certificate.status(Some("bad")).await, 200);
    let review = |request: http::request::Builder| request.body("{}".into()).unwrap();
    let path = "https://127.0.0.1/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let response = json(with_certificate.send(review(Request::post(path))).await.unwrap()).await;
    assert_eq!(response["status"]["userInfo"], serde_json::json!({ "username": "jane", "groups": ["dev"] }));
    let request = review(Request::post(path).header("authorization", "Bearer good"));
    assert_eq!(json(without.send(request).await.unwrap()).await["status"]["userInfo"]["username"], "joe");

    credentials.revoke_token("good");
    let rejected = without.get("/version", Some("good")).await.unwrap();
    assert_eq!(rejected.status(), 401);
    let status = json(rejected).await;
    assert_eq!(
        (&status["kind"], &status["reason"], &status["code"]),
        (&"Status".into(), &"Unauthorized".into(), &401.into())
    );
    credentials.revoke_all();
    assert_eq!(with_certificate.status(None).await, 401);
}

#[tokio::test]
async fn resumed_session_keeps_identity() {
    let ca = test_ca();
    for tls12 in [false, true] {
        let setup = open_server(&ca);
        let server = if tls12 { setup.tls12_only() } else { setup }.start().unwrap();
        let client = Client::new(&server, &ca, Some(&ca.client("jane").issue().unwrap()), H2);
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
    let ca = test_ca();
    let jane = ca.client("jane").issue().unwrap();
    let required = open_server(&ca).client_certificates(ClientCertificates::Required).start().unwrap();
    assert_eq!(Client::new(&required, &ca, Some(&jane), H2).connect().await.status(None).await, 200);
    // In TLS 1.3 the client completes the handshake before the server has verified its certificate.
    drop(Client::new(&required, &ca, None, H2).dial().await);
    required.wait_for(|counts| counts.failed_handshakes == 1).await;
    let stranger = test_ca().client("jane").issue().unwrap();
    drop(Client::new(&required, &ca, Some(&stranger), H2).dial().await);
    required.wait_for(|counts| counts.failed_handshakes == 2).await;

    let off = open_server(&ca).client_certificates(ClientCertificates::Off).start().unwrap();
    assert_eq!(Client::new(&off, &ca, Some(&jane), H2).connect().await.status(None).await, 200);
    assert_eq!(off.last_request().unwrap().peer, None);
}

#[tokio::test]
async fn alpn_protocols_can_be_set() {
    let ca = test_ca();
    let server = open_server(&ca).alpn(["http/1.1"]).start().unwrap();
    assert!(matches!(Client::new(&server, &ca, None, H2).connect().await, Connection::Http1(_)));
    let server = open_server(&ca).alpn([]).start().unwrap();
    assert_eq!(Client::new(&server, &ca, None, H2).connect().await.status(None).await, 200);
    assert_eq!(server.last_request().unwrap().alpn, None);
}

#[tokio::test]
async fn stream_limit_can_be_set() {
    let ca = test_ca();
    let server = open_server(&ca).max_concurrent_streams(2).start().unwrap();
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
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    let mut connection = Client::new(&server, &ca, None, H2).connect().await;
    server.inject(2, Fault::Status(401));
    server.inject(1, Fault::Status(503));
    for expected in [401, 401, 503, 200] {
        assert_eq!(connection.status(None).await, expected);
    }
    server.inject(1, Fault::Status(500));
    server.clear_faults();
    assert_eq!(connection.status(None).await, 200);
}

#[tokio::test]
async fn cut_precedes_first_byte() {
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    for alpn in [H1, H2] {
        let client = Client::new(&server, &ca, None, alpn);
        let mut connection = client.connect().await;
        server.inject(1, Fault::Cut);
        assert!(connection.get("/readyz", None).await.is_err());
        server.wait_for(|counts| counts.open_connections == 0).await;
        assert_eq!(client.connect().await.status(None).await, 200);
        server.wait_for(|counts| counts.open_connections == 0).await;
    }
}

#[tokio::test]
async fn cut_is_tcp_reset() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    let mut tls = Client::new(&server, &ca, None, H1).dial().await.unwrap();
    server.inject(1, Fault::Cut);
    tls.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // Session tickets may come first; a clean end of the stream must not come.
    assert_eq!(tls.read(&mut [0; 9]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn cut_mid_body_follows_partial_body() {
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    for alpn in [H1, H2] {
        let mut connection = Client::new(&server, &ca, None, alpn).connect().await;
        server.inject(1, Fault::CutMidBody);
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
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    let mut connection = Client::new(&server, &ca, None, H2).connect().await;
    server.inject(1, Fault::Stall);
    let stalled = async { timeout(Duration::from_millis(100), connection.get("/readyz", None)).await.is_err() };
    let (unanswered, seen) = tokio::join!(stalled, server.wait_for(|counts| counts.requests == 1));
    assert!(unanswered && seen.requests == 1);
    assert_eq!(connection.status(None).await, 200, "the others on the connection go on");
}

#[tokio::test]
async fn stalled_handshake_can_resume() {
    use tokio::io::AsyncReadExt as _;
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    let client = Client::new(&server, &ca, None, H2);
    server.hold_handshakes(true);
    let mut dial = Box::pin(client.dial());
    tokio::select! {
        _ = &mut dial => panic!("the handshake must hang"),
        counts = server.wait_for(|counts| counts.connections == 1) => assert_eq!(counts.handshakes, 0),
    }
    assert!(timeout(Duration::from_millis(50), &mut dial).await.is_err());
    server.hold_handshakes(false);
    assert!(dial.await.is_ok());

    server.hold_handshakes(true);
    let (dialled, ()) = tokio::join!(client.dial(), async {
        server.wait_for(|counts| counts.connections == 2).await;
        server.reset_connections();
    });
    assert!(dialled.is_err());

    let (dialled, ()) = tokio::join!(client.dial(), async {
        server.wait_for(|counts| counts.connections == 3).await;
        server.close_connections();
        server.hold_handshakes(false);
    });
    assert_eq!(dialled.unwrap().read(&mut [0; 9]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn graceful_shutdown_completes_requests() {
    let ca = test_ca();
    let released = Arc::new(Notify::new());
    let release = Arc::clone(&released);
    // `/lines` sends one line, waits, and sends another.
    let handler = move |request: Request<Incoming>, _| {
        let released = Arc::clone(&released);
        async move {
            if request.uri().path() != "/lines" {
                return response::text("ok");
            }
            let (mut sender, body) = Channel::new(1);
            tokio::spawn(async move {
                sender.send_data("one\n".into()).await.unwrap();
                released.notified().await;
                sender.send_data("two\n".into()).await.unwrap();
            });
            response::stream(body.boxed_unsync())
        }
    };
    let server = open_server(&ca).handler(handler).start().unwrap();
    for alpn in [H1, H2] {
        let client = Client::new(&server, &ca, None, alpn);
        let mut connection = client.connect().await;
        let mut lines = connection.get("/lines", None).await.unwrap().into_body();
        lines.frame().await.unwrap().unwrap();
        server.go_away();
        release.notify_one();
        assert_eq!(lines.collect().await.unwrap().to_bytes(), "two\n");
        server.wait_for(|counts| counts.open_connections == 0).await;
        assert!(connection.ready().await.is_err() || connection.get("/readyz", None).await.is_err());
        assert_eq!(client.connect().await.status(None).await, 200);
        server.wait_for(|counts| counts.open_connections == 0).await;
    }
}

#[tokio::test]
async fn rotated_certificate_is_used_next() {
    let ca = test_ca();
    let server = open_server(&ca).start().unwrap();
    let client = Client::new(&server, &ca, None, H2);
    let mut connection = client.connect().await;
    let next = ca.server().issue().unwrap();
    server.rotate_certificate(next.clone()).unwrap();
    let tls = client.dial().await.unwrap();
    assert_eq!(tls.get_ref().1.peer_certificates().unwrap()[0], next.cert_der());
    assert_eq!(connection.status(None).await, 200);

    let stranger = test_ca();
    server.rotate_certificate(stranger.server().issue().unwrap()).unwrap();
    let fresh = Client::new(&server, &ca, None, H2);
    assert!(fresh.dial().await.is_err());
    assert!(Client::new(&server, &stranger, None, H2).dial().await.is_ok());
}

#[tokio::test]
async fn default_server_accepts_certificates_of_its_ca() {
    let (ca, other) = (CertificateAuthority::new("same").unwrap(), CertificateAuthority::new("same").unwrap());
    let server = ApiServer::builder(&ca).start().unwrap();
    let path = "/api/v1/namespaces/default";
    let valid = ca.client("jane").organizations(["dev"]).issue().unwrap();
    let (status, body) = get(&server, &ca, Some(&valid), None, path).await;
    assert_eq!((status, &body["metadata"]["name"]), (200, &"default".into()));
    // Rejected by a response, not by the handshake.
    for identity in [ca.client("jane").expired().issue().unwrap(), other.client("jane").issue().unwrap()] {
        let (status, body) = get(&server, &ca, Some(&identity), None, path).await;
        assert_eq!((status, &body["reason"]), (401, &"Unauthorized".into()));
    }
    assert_eq!(get(&server, &ca, None, Some("token"), path).await.0, 401);
    assert_eq!(server.requests().len(), 4);
    assert_eq!(server.last_request().unwrap().bearer(), Some("token"));
}

#[tokio::test]
async fn signed_tokens_can_be_revoked() {
    let ca = test_ca();
    let signer = TokenSigner::new().unwrap();
    let authenticator = Arc::new(ClusterAuthenticator::new(&ca).unwrap().with_tokens(signer.verifier()));
    let server = ApiServer::builder(&ca).authenticator(Arc::clone(&authenticator)).start().unwrap();
    let now = ca.clock().now();
    let token = |id: &str, expires| {
        let claims = TokenClaims { id: id.into(), user: "jane".into(), groups: Vec::new(), expires };
        signer.sign(&claims, now)
    };
    let (valid, expired) = (token("1", now + Duration::from_secs(60)), token("2", now - Duration::from_secs(60)));
    assert_eq!(get(&server, &ca, None, Some(valid.expose()), "/readyz").await.0, 200);
    assert_eq!(get(&server, &ca, None, Some(expired.expose()), "/readyz").await.0, 401);
    authenticator.revoke("1");
    assert_eq!(get(&server, &ca, None, Some(valid.expose()), "/readyz").await.0, 401);
}

#[tokio::test]
async fn handshake_verifies_certificates_for_allow_list() {
    let (ca, other) = (CertificateAuthority::new("same").unwrap(), CertificateAuthority::new("same").unwrap());
    let credentials = Arc::new(CredentialAllowList::new());
    let server = ApiServer::builder(&ca).authenticator(Arc::clone(&credentials)).start().unwrap();
    credentials.accept_client("jane");
    let [own, foreign] = [&ca, &other].map(|ca| ca.client("jane").issue().unwrap());
    assert_eq!(get(&server, &ca, Some(&own), None, "/readyz").await.0, 200);
    // In TLS 1.3 the client completes the handshake before the server has verified its certificate.
    drop(Client::new(&server, &ca, Some(&foreign), H2).dial().await);
    server.wait_for(|counts| counts.failed_handshakes == 1).await;
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn function_is_a_handler() {
    let ca = test_ca();
    let server = open_server(&ca)
        .handler(|_, context: RequestContext| async move { StatusError::Forbidden(context.user.name).into_response() })
        .start()
        .unwrap();
    let (status, body) = get(&server, &ca, None, None, "/").await;
    assert_eq!((status, &body["message"]), (403, &"system:anonymous".into()));
    server.inject(1, Fault::Status(7));
    assert_eq!(get(&server, &ca, None, None, "/").await.0, 500);
}

#[test]
fn errors_instead_of_panics() {
    let ca = test_ca();
    assert!(matches!(ApiServer::builder(&ca).start(), Err(StartError::NoRuntime)));
    let server = ApiServer::builder(&ca).start_in_thread().unwrap();
    let taken = ApiServer::builder(&ca).bind(server.address()).start_in_thread();
    assert!(matches!(taken, Err(StartError::Listen(_))), "{taken:?}");
    let mismatched = ca.server().issue().unwrap().with_key_of(&ca.server().issue().unwrap());
    assert!(matches!(server.rotate_certificate(mismatched), Err(StartError::Tls(_))));
    assert_eq!(server.last_request(), None);
    assert!(server.join().is_ok());
}

#[tokio::test]
async fn panic_of_handler_stops_server() {
    async fn fail(_: Request<Incoming>, _: RequestContext) -> Response<ResponseBody> {
        std::panic::resume_unwind(Box::new("test"))
    }
    let ca = test_ca();
    for alpn in [H1, H2] {
        let server = open_server(&ca).handler(fail).start_in_thread().unwrap();
        let client = Client::new(&server, &ca, None, alpn);
        assert!(client.connect().await.get("/", None).await.is_err());
        assert!(server.join().is_err(), "{alpn:?}");
    }
}
