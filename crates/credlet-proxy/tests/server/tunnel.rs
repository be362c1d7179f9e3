//! A port that clients use as an HTTP proxy.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use credlet_api::Secret;
use credlet_api::exec::{Cluster, ExecCredentialStatus};
use credlet_exec::{Clock as _, ManualClock, Platform, SystemClock};
use credlet_http::{CryptoBackend, HttpClient, ProxyAddr as HttpProxy};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{
    BridgeMode, LoopbackOptions, ProxyCa, ProxyServer, ServeError, ServerOptions, UpstreamTarget,
};
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::server::FakeApiServer as Upstream;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::socket_tls::{client_with, version};
use crate::support::{FakeSigner, TestProxy, cluster, target, within};

/// A proxy with such a port, for an API server at this address.
struct TunnelProxy {
    proxy: TestProxy,
    server: String,
    pinned: String,
    given: ExecCredentialStatus,
}

impl TunnelProxy {
    async fn start(cluster: &Cluster, host: &str) -> Self {
        let (loopback, pinned) = port_for(host, 0);
        let proxy =
            TestProxy::start_with(FakeSigner::nothing(), cluster, |options| options.loopback = Some(loopback)).await;
        let given = proxy.control().lease(None).await.unwrap().status;
        Self { proxy, server: cluster.server.clone(), pinned, given }
    }

    fn own(&self) -> Option<(&str, &Secret)> {
        Some((&*self.given.client_certificate_data, &self.given.client_key_data))
    }

    fn client(&self, ca: &str, shows: Option<(&str, &Secret)>, http2: bool) -> HttpClient {
        let proxy = format!("http://127.0.0.1:{}", self.proxy.port.unwrap());
        client_with(&self.server, ca, shows, |settings| {
            settings.proxy = Some(HttpProxy::parse(&proxy).unwrap());
            settings.tuning.http2 = http2;
        })
    }
}

/// The port and the CA to pin.
fn port_for(host: &str, port: u16) -> (LoopbackOptions, String) {
    let authority = Arc::new(ProxyCa::generate_for_host(host, SystemClock::new().now()).unwrap());
    let pinned = authority.certificate().to_owned();
    (LoopbackOptions { port, mode: BridgeMode::ProxyUrl, authority }, pinned)
}

/// Returns the response to these bytes at the proxy's port.
async fn told(proxy: &TestProxy, said: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port.unwrap())).await.unwrap();
    stream.write_all(said.as_bytes()).await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    heard
}

#[tokio::test]
async fn tunnel_forwards_requests() {
    let watch = LeakCheck::new();
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let mut by_name = cluster(&upstream, &ca);
    by_name.server = by_name.server.replace("127.0.0.1", "localhost");
    for (cluster, host) in [(cluster(&upstream, &ca), "127.0.0.1"), (by_name, "localhost")] {
        let through = TunnelProxy::start(&cluster, host).await;
        watch.adopt("client key", through.given.client_key_data.expose());
        let stranger = TestCa::new().client("a client of credlet proxy").issue();
        let strange_key = Secret::new(stranger.key_pem());
        let before = upstream.counts().requests;
        for http2 in [true, false] {
            let good = through.client(&through.pinned, through.own(), http2);
            assert!(version(&good).await.unwrap().starts_with("200 OK"), "{host}");
            assert_eq!(upstream.last_request().path, "/version");
            let nobody = through.client(&through.pinned, None, http2);
            watch.error(&version(&nobody).await.unwrap_err());
            let stranger = Some((stranger.cert_pem(), &strange_key));
            assert!(version(&through.client(&through.pinned, stranger, http2)).await.is_err());
            let deceived = through.client(ca.pem(), through.own(), http2);
            assert!(version(&deceived).await.is_err(), "it does not pass for the real one");
        }
        assert_eq!(upstream.counts().requests, before + 2);
    }
}

#[tokio::test]
async fn other_connect_requests_are_rejected() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let through = TunnelProxy::start(&cluster(&upstream, &ca), "127.0.0.1").await;
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let other = elsewhere.local_addr().unwrap();
    let own = upstream.address();
    let port = through.proxy.port.unwrap();
    let large = format!("CONNECT {own} HTTP/1.1\r\nX-Large: {}", "x".repeat(20_000));
    for (said, code, class) in [
        (format!("CONNECT {other} HTTP/1.1\r\nHost: {own}\r\n\r\n"), "403 Forbidden", "other-server"),
        (format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n"), "403 Forbidden", "other-server"),
        (format!("GET http://{own}/version HTTP/1.1\r\nHost: {own}\r\n\r\n"), "405 Method Not Allowed", "connect"),
        (format!("GET /version HTTP/1.1\r\nHost: {own}\r\n\r\n"), "405 Method Not Allowed", "connect"),
        ("\u{16}\u{3}\u{1}\0\u{5}hello".to_owned(), "400 Bad Request", "malformed"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "400 Bad Request", "malformed"),
        (large, "431 Request Header Fields Too Large", "too-large"),
    ] {
        let told = within(told(&through.proxy, &said)).await;
        let shown = &said[..said.len().min(60)];
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {code}\r\n")), "{shown}: {told}");
        assert!(head.contains(&format!("exec-proxy-error: {class}")), "{shown}: {told}");
        assert_eq!(head.contains("allow: CONNECT"), code.starts_with("405"), "{shown}: {told}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{shown}: {told}");
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(status["kind"], "Status", "{shown}");
        assert_eq!(status["code"].to_string(), code[..3], "{shown}");
    }
    assert_eq!(upstream.counts().connections, 0);
    assert_eq!(elsewhere.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came there");
    let metrics = through.proxy.control().metrics().await.unwrap();
    assert!(metrics.lines().any(|line| line == "credlet_proxy_refused_connections_total 7"), "{metrics}");
}

/// Requests in the tunnel are checked like all others.
#[tokio::test]
async fn tunneled_authority_is_checked() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let through = TunnelProxy::start(&cluster(&upstream, &ca), "127.0.0.1").await;
    let ask = async |first: &str, host: &str| spoken(&through, upstream.address(), &[], first, host).await;
    let own = upstream.address().to_string();
    assert!(ask("GET /version", &own).await.starts_with("HTTP/1.1 200"));
    let port = through.proxy.port.unwrap();
    for host in ["evil.example".to_owned(), format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        assert!(ask("GET /version", &host).await.starts_with("HTTP/1.1 421"), "{host}");
    }
    assert!(ask(&format!("CONNECT {own}"), &own).await.starts_with("HTTP/1.1 405"));
    assert_eq!(upstream.counts().requests, 1);
}

#[tokio::test]
async fn early_and_split_data_is_kept() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let through = TunnelProxy::start(&cluster(&upstream, &ca), "127.0.0.1").await;
    let (at, host) = (upstream.address(), upstream.address().to_string());
    for cuts in [vec![], vec![1], vec![10, 30, 55], (1..200).collect()] {
        let heard = spoken(&through, at, &cuts, "GET /version", &host).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{cuts:?}: {heard}");
    }
}

/// Sends one request without waiting for the response to CONNECT: its head and the start of the handshake are sent
/// together, split at these positions.
async fn spoken(through: &TunnelProxy, at: SocketAddr, cuts: &[usize], first: &str, host: &str) -> String {
    let provider = CryptoBackend::aws_lc_rs().provider().clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(through.pinned.as_bytes()).unwrap()).unwrap();
    let (certificate, key) = through.own().unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap();
    let request = format!("{first} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let (port, cuts) = (through.proxy.port.unwrap(), cuts.to_vec());
    let spoken = tokio::task::spawn_blocking(move || {
        let mut tls = rustls::ClientConnection::new(Arc::new(config), ServerName::from(at.ip())).unwrap();
        let mut said = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n").into_bytes();
        tls.write_tls(&mut said).unwrap();
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        let ends = cuts.iter().copied().chain([said.len()]);
        ends.fold(0, |from, to| {
            stream.write_all(&said[from..to]).unwrap();
            to
        });
        let mut answer = [0; b"HTTP/1.1 200 OK\r\n\r\n".len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK\r\n\r\n");
        let mut stream = rustls::StreamOwned::new(tls, stream);
        stream.write_all(request.as_bytes()).unwrap();
        let mut heard = Vec::new();
        // hyper closes the connection after a CONNECT without a response.
        let _ = stream.read_to_end(&mut heard);
        String::from_utf8(heard).unwrap()
    });
    within(spoken).await.unwrap()
}

/// Tokio's paused clock advances while the runtime is idle. The proxy's lifetime uses another clock, which stands
/// still. There is no test timeout, because the clock would also advance to it while a packet is in transit.
#[tokio::test(start_paused = true)]
async fn slow_connect_head_times_out() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start_in_thread();
    let mut platform = Platform::system();
    platform.clock = Arc::new(ManualClock::new(SystemClock::new().now()));
    let cluster = cluster(&upstream, &ca);
    let proxy = TestProxy::start_with(FakeSigner::nothing(), &cluster, |options| {
        options.target = UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &platform).unwrap();
        options.loopback = Some(port_for("127.0.0.1", 0).0);
    })
    .await;
    let half = format!("CONNECT {} HTTP/1.1\r\nHost", upstream.address());
    for said in ["", &half] {
        let heard = told(&proxy, said).await;
        assert!(heard.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{said}: {heard}");
    }
    assert_eq!(upstream.counts().connections, 0);
}

#[tokio::test]
async fn proxy_loop_prevents_start() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    for host in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
        let proxy_url = Secret::new(format!("http://{host}:37443"));
        let cluster = Cluster { proxy_url, ..cluster(&upstream, &ca) };
        let home = tempfile::tempdir().unwrap();
        let mut options = ServerOptions::new(target(&cluster), ProxyDir::open(home.path().join("d")).unwrap());
        options.loopback = Some(port_for("127.0.0.1", 37443).0);
        let error = ProxyServer::bind(Arc::new(FakeSigner::nothing()), options).await.unwrap_err();
        assert!(matches!(error, ServeError::Circle { port: 37443 }), "{host}: {error}");
    }
}
