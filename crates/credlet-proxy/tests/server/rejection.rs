//! Security properties that other tests do not cover, see `docs/security/exec-proxy.md`.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use credlet_exec::{Clock as _, ManualClock, Platform, SystemClock};
use credlet_http::CryptoBackend;
use credlet_proxy::server::{BridgeMode, LoopbackOptions, ProxyCa, SocketProtocol, UpstreamTarget};
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::server::FakeApiServer as Upstream;
use http::{Request, StatusCode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{FakeSigner, TestProxy, cluster, empty, within};

/// Whether a client with its issued certificate gets a response from the socket with this version of TLS.
fn is_served(proxy: &TestProxy, version: &'static SupportedProtocolVersion) -> bool {
    let (answer, config) = (&proxy.answer, proxy.answer.proxy_config.as_ref().unwrap());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&config.certificate_authority_data).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(answer.client_certificate_data.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(answer.client_key_data.expose().as_bytes()).unwrap();
    let provider = CryptoBackend::aws_lc_rs().provider().clone();
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let config = config.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(proxy.dir.socket()).unwrap();
    let mut stream = rustls::Stream::new(&mut tls, &mut stream);
    let request = format!("GET /version HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", proxy.authority);
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

#[tokio::test(flavor = "multi_thread")]
async fn local_hop_requires_tls_1_3() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Arc::new(TestProxy::start_with(FakeSigner::nothing(), &cluster(&upstream, &ca), |_| ()).await);
    for (version, served) in [(&rustls::version::TLS13, true), (&rustls::version::TLS12, false)] {
        let proxy = Arc::clone(&proxy);
        let asked = within(tokio::task::spawn_blocking(move || is_served(&proxy, version))).await.unwrap();
        assert_eq!(asked, served, "{version:?}");
    }
    assert_eq!(upstream.counts().requests, 1);
}

#[tokio::test]
async fn responses_have_no_cors_headers() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let asked = |method: &str, host: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("host", host);
        let request = request.header("origin", "http://evil.example").header("access-control-request-method", "POST");
        request.body(empty()).unwrap()
    };
    for (request, code) in [
        (asked("GET", &proxy.authority, "/version"), StatusCode::OK),
        // A response of the proxy itself.
        (asked("OPTIONS", "evil.example", "/version"), StatusCode::MISDIRECTED_REQUEST),
        (asked("GET", "evil.example", "/index.html"), StatusCode::MISDIRECTED_REQUEST),
    ] {
        let response = within(proxy.send(request)).await;
        assert_eq!(response.status(), code);
        let leave: Vec<_> =
            response.headers().keys().filter(|name| name.as_str().starts_with("access-control-")).collect();
        assert!(leave.is_empty(), "{leave:?}");
    }
    // No files are served: every path is forwarded to the API server.
    within(proxy.send(asked("GET", &proxy.authority, "/index.html"))).await;
    assert_eq!(upstream.last_request().path, "/index.html");
}

/// Tokio's paused clock advances while the runtime is idle. The proxy's lifetime uses another clock, which stands
/// still. There is no test timeout, because the clock would also advance to it while a packet is in transit.
#[tokio::test(start_paused = true)]
async fn slow_clients_time_out() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start_in_thread();
    let mut platform = Platform::system();
    platform.clock = Arc::new(ManualClock::new(SystemClock::new().now()));
    let authority = Arc::new(ProxyCa::generate(platform.clock.now()).unwrap());
    let cluster = cluster(&upstream, &ca);
    let proxy = TestProxy::start_with(FakeSigner::nothing(), &cluster, |options| {
        options.target = UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &platform).unwrap();
        options.socket_protocol = SocketProtocol::Plain;
        options.loopback = Some(LoopbackOptions { port: 0, mode: BridgeMode::Server, authority });
    })
    .await;
    for said in ["", "GET /version HTTP/1.1\r\nHost: x\r\nX-Half"] {
        let mut stream = proxy.connect().await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        assert!(!heard.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&heard));
    }
    // A handshake that never starts.
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", proxy.port.unwrap())).await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(upstream.counts().requests, 0);
}

#[tokio::test]
async fn disabled_verification_is_logged() {
    let watch = LeakCheck::new();
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let mut cluster = cluster(&upstream, &ca);
    let told = |watch: &LeakCheck| {
        watch.lines().iter().any(|line| line.contains("TLS verification of the API server is disabled"))
    };
    let platform = Platform::system();
    UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &platform).unwrap();
    assert!(!told(&watch));
    cluster.insecure_skip_tls_verify = true;
    cluster.certificate_authority_data.clear();
    UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &platform).unwrap();
    assert!(told(&watch), "{:?}", watch.lines());
}
