//! What the security checklist asks for, and no other test looks at.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use credlet_client::conn::Crypto;
use credlet_core::{Clock as _, ManualClock, SystemClock, World};
use credlet_proxy::server::{Authority, Guise, Hop, Loopback, Target};
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::server::Server as Upstream;
use http::{Request, StatusCode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Proxy, Simple, cluster, empty, within};

/// Whether a client that was given its certificate gets an answer from the socket with this version of TLS.
fn is_served(proxy: &Proxy, version: &'static SupportedProtocolVersion) -> bool {
    let (answer, config) = (&proxy.answer, proxy.answer.proxy_config.as_ref().unwrap());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&config.certificate_authority_data).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(answer.client_certificate_data.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(answer.client_key_data.expose().as_bytes()).unwrap();
    let provider = Crypto::aws_lc_rs().provider().clone();
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
async fn no_older_tls_than_1_3_is_spoken_on_the_local_hop() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Arc::new(Proxy::start_with(Simple::nothing(), &cluster(&upstream, &ca), |_| ()).await);
    for (version, served) in [(&rustls::version::TLS13, true), (&rustls::version::TLS12, false)] {
        let proxy = Arc::clone(&proxy);
        let asked = within(tokio::task::spawn_blocking(move || is_served(&proxy, version))).await.unwrap();
        assert_eq!(asked, served, "{version:?}");
    }
    assert_eq!(upstream.counts().requests, 1);
}

#[tokio::test]
async fn no_page_of_a_browser_is_given_leave_to_read_an_answer() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    let asked = |method: &str, host: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("host", host);
        let request = request.header("origin", "http://evil.example").header("access-control-request-method", "POST");
        request.body(empty()).unwrap()
    };
    for (request, code) in [
        (asked("GET", &proxy.authority, "/version"), StatusCode::OK),
        // What the proxy says itself.
        (asked("OPTIONS", "evil.example", "/version"), StatusCode::MISDIRECTED_REQUEST),
        (asked("GET", "evil.example", "/index.html"), StatusCode::MISDIRECTED_REQUEST),
    ] {
        let response = within(proxy.send(request)).await;
        assert_eq!(response.status(), code);
        let leave: Vec<_> =
            response.headers().keys().filter(|name| name.as_str().starts_with("access-control-")).collect();
        assert!(leave.is_empty(), "{leave:?}");
    }
    // There is no file to be had: whatever is asked for is asked of the API server.
    within(proxy.send(asked("GET", &proxy.authority, "/index.html"))).await;
    assert_eq!(upstream.last_request().path, "/index.html");
}

/// Time passes when nothing else happens. The proxy's own life is timed by another clock, which stands still. There is no
/// limit here: while a packet is on its way nothing else happens, and time would pass to that one, too.
#[tokio::test(start_paused = true)]
async fn who_connects_and_says_nothing_or_only_the_half_is_not_waited_for_for_ever() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start_in_thread();
    let mut world = World::system();
    world.clock = Arc::new(ManualClock::new(SystemClock::new().now()));
    let authority = Arc::new(Authority::fresh(world.clock.now()).unwrap());
    let cluster = cluster(&upstream, &ca);
    let proxy = Proxy::start_with(Simple::nothing(), &cluster, |options| {
        options.target = Target::new(&cluster, Crypto::aws_lc_rs(), &world).unwrap();
        options.hop = Hop::Plain;
        options.loopback = Some(Loopback { port: 0, guise: Guise::Server, authority });
    })
    .await;
    for said in ["", "GET /version HTTP/1.1\r\nHost: x\r\nX-Half"] {
        let mut stream = proxy.connect().await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        assert!(!heard.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&heard));
    }
    // A handshake that is never begun.
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", proxy.port.unwrap())).await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(upstream.counts().requests, 0);
}

#[tokio::test]
async fn a_server_that_is_not_checked_is_told_of_in_the_log() {
    let watch = Watch::new();
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let mut cluster = cluster(&upstream, &ca);
    let told = |watch: &Watch| watch.lines().iter().any(|line| line.contains("is taken for the API server"));
    let world = World::system();
    Target::new(&cluster, Crypto::aws_lc_rs(), &world).unwrap();
    assert!(!told(&watch));
    cluster.insecure_skip_tls_verify = true;
    cluster.certificate_authority_data.clear();
    Target::new(&cluster, Crypto::aws_lc_rs(), &world).unwrap();
    assert!(told(&watch), "{:?}", watch.lines());
}
