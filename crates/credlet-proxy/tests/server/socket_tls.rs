//! TLS between client and proxy, on the socket and on a loopback port.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_exec::{Clock as _, SystemClock};
use credlet_http::{
    ClientSettings, ConnectFuture, CryptoBackend, HostPort, HttpClient, HttpCredential, HttpError, RequestBody, Route,
    ServerAddr, TlsIdentity, TrustRoots,
};
use credlet_proxy::server::{BridgeMode, LoopbackOptions, ProxyCa};
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::server::FakeApiServer as Upstream;
use http::Request;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::siblings::reserved;
use crate::support::{FakeSigner, TestProxy, cluster, within};

#[derive(Debug)]
struct Socket(PathBuf);

impl Route for Socket {
    fn connect<'a>(&'a self, _: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(async move { Ok(Box::new(UnixStream::connect(&self.0).await.unwrap()) as _) })
    }
}

/// Connects with the issued certificate or without one, and trusts this CA.
pub(crate) fn client(
    server: &str,
    ca: &str,
    given: Option<(&str, &Secret)>,
    socket: Option<PathBuf>,
    http2: bool,
) -> HttpClient {
    client_with(server, ca, given, |settings| {
        settings.tuning.http2 = http2;
        if let Some(socket) = socket {
            settings.tls_server_name = Some("localhost".into());
            settings.route = Some(Arc::new(Socket(socket)));
        }
    })
}

pub(crate) fn client_with(
    server: &str,
    ca: &str,
    given: Option<(&str, &Secret)>,
    adjust: impl FnOnce(&mut ClientSettings),
) -> HttpClient {
    let crypto = CryptoBackend::aws_lc_rs();
    let server = ServerAddr::parse(server).unwrap();
    let mut settings = ClientSettings::new(server, crypto.clone(), Arc::new(SystemClock::new()));
    settings.roots = TrustRoots::Pem(ca.into());
    adjust(&mut settings);
    let client = HttpClient::new(settings).unwrap();
    let identity = given.map(|(certificate, key)| TlsIdentity::from_pem(certificate.as_bytes(), key, &crypto).unwrap());
    client.publish(HttpCredential::new(1, None, identity)).unwrap();
    client
}

pub(crate) async fn version(client: &HttpClient) -> Result<String, HttpError> {
    let response = within(client.send(Request::get("/version").body(RequestBody::empty()).unwrap())).await?;
    let status = response.status();
    let body = within(response.into_body().collect()).await?.to_bytes();
    Ok(format!("{status} {}", String::from_utf8_lossy(&body)))
}

#[tokio::test]
async fn socket_requires_issued_certificate() {
    let watch = LeakCheck::new();
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start_with(FakeSigner::nothing(), &cluster(&upstream, &ca), |_| ()).await;
    let answer = &proxy.answer;
    watch.adopt("client key", answer.client_key_data.expose());
    let config = answer.proxy_config.as_ref().unwrap();
    assert_eq!(config.url, format!("unix://{}", proxy.dir.socket().display()));
    assert!(answer.expiration_timestamp.is_some());
    let pinned = String::from_utf8(config.certificate_authority_data.clone()).unwrap();
    let given = Some((&*answer.client_certificate_data, &answer.client_key_data));
    let socket = Some(proxy.dir.socket());

    for http2 in [true, false] {
        let good = client(&upstream.url(), &pinned, given, socket.clone(), http2);
        assert!(version(&good).await.unwrap().starts_with("200 OK"));
        let nobody = client(&upstream.url(), &pinned, None, socket.clone(), http2);
        watch.error(&version(&nobody).await.unwrap_err());
        let stranger = TestCa::new().client("a client of credlet proxy").issue();
        let key = Secret::new(stranger.key_pem());
        let stranger = client(&upstream.url(), &pinned, Some((stranger.cert_pem(), &key)), socket.clone(), http2);
        assert!(version(&stranger).await.is_err());
        let deceived = client(&upstream.url(), ca.pem(), given, socket.clone(), http2);
        assert!(version(&deceived).await.is_err(), "the proxy is known by its own authority only");
    }
    assert_eq!(upstream.counts().requests, 2);
    let mut plain = proxy.connect().await;
    plain.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut told = Vec::new();
    within(plain.read_to_end(&mut told)).await.unwrap();
    assert!(!told.starts_with(b"HTTP"), "no word in the clear");
}

#[tokio::test]
async fn new_daemon_accepts_old_certificates() {
    let watch = LeakCheck::new();
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let kept = home.path().join("authority.pem");
    let now = SystemClock::new().now();
    let authority = || Arc::new(ProxyCa::load_or_create(&kept, now).unwrap());
    let text = std::fs::read_to_string({
        authority();
        &kept
    })
    .unwrap();
    watch.adopt("kept keys", &text);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(text.matches("PRIVATE KEY-----").count(), 4, "two keys: that of the pinned authority is gone");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "no drafts are left");

    let cluster = cluster(&upstream, &ca);
    let (_reserved, port) = reserved();
    let start = || {
        let loopback = Some(LoopbackOptions { port, mode: BridgeMode::Server, authority: authority() });
        TestProxy::start_with(FakeSigner::nothing(), &cluster, |options| options.loopback = loopback)
    };
    let first = start().await;
    let answer = first.control().lease(None).await.unwrap().status;
    assert!(answer.proxy_config.is_none() && answer.expiration_timestamp.is_some());
    let again = first.control().lease(None).await.unwrap().status;
    assert_eq!(again.client_certificate_data, answer.client_certificate_data, "client-go drops its watches otherwise");
    let pinned = authority().certificate().to_owned();
    let given = Some((&*answer.client_certificate_data, &answer.client_key_data));
    let url = format!("https://127.0.0.1:{port}");
    for http2 in [true, false] {
        assert!(version(&client(&url, &pinned, given, None, http2)).await.unwrap().starts_with("200 OK"));
        assert!(version(&client(&url, &pinned, None, None, http2)).await.is_err());
    }
    let socket_answer = &first.answer;
    let other_hop = Some((&*socket_answer.client_certificate_data, &socket_answer.client_key_data));
    assert!(
        version(&client(&url, &pinned, other_hop, None, true)).await.is_err(),
        "one hop's certificates are its own"
    );

    first.control().stop().await.unwrap();
    within(first.running).await.unwrap();
    let second = start().await;
    assert!(version(&client(&url, &pinned, given, None, true)).await.unwrap().starts_with("200 OK"));
    drop(second);
}

#[test]
fn readable_or_invalid_ca_file_is_rejected() {
    let home = tempfile::tempdir().unwrap();
    let (kept, now) = (home.path().join("authority.pem"), SystemClock::new().now());
    let first = ProxyCa::load_or_create(&kept, now).unwrap().certificate().to_owned();
    assert_eq!(ProxyCa::load_or_create(&kept, now).unwrap().certificate(), first);
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = ProxyCa::load_or_create(&kept, now).unwrap_err().to_string();
    assert_eq!(error, "invalid key file of the proxy: it is owned by or accessible to other users");
    for rubbish in ["", "-----BEGIN CERTIFICATE-----\nhunter2\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&kept, rubbish).unwrap();
        std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o600)).unwrap();
        let error = ProxyCa::load_or_create(&kept, now).unwrap_err().to_string();
        assert_eq!(error, "invalid key file of the proxy: it has an unexpected format");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), rubbish);
    }
}

/// The file type is checked after opening: symlinks and FIFOs are rejected, and a FIFO does not block.
#[test]
fn ca_file_must_be_regular() {
    let home = tempfile::tempdir().unwrap();
    let (kept, now) = (home.path().join("authority.pem"), SystemClock::new().now());
    let elsewhere = home.path().join("elsewhere");
    ProxyCa::load_or_create(&elsewhere, now).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &kept).unwrap();
    assert!(ProxyCa::load_or_create(&kept, now).unwrap_err().to_string().ends_with("is not a regular file"));
    std::fs::remove_file(&kept).unwrap();
    credlet_testkit::make_fifo(&kept);
    assert!(ProxyCa::load_or_create(&kept, now).unwrap_err().to_string().ends_with("is not a regular file"));
    std::fs::remove_file(&kept).unwrap();
    if rustix::process::geteuid().is_root() {
        std::fs::rename(&elsewhere, &kept).unwrap();
        std::os::unix::fs::chown(&kept, Some(65534), None).unwrap();
        assert!(ProxyCa::load_or_create(&kept, now).unwrap_err().to_string().contains("is owned by"));
    }
}
