//! Verification of server certificates and texts of TLS errors. The cases of a CA bundle are in `src/verifier.rs`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use credlet_http::{ConnectFuture, HostPort, HttpClient, HttpError, Route, TrustRoots};
use credlet_testkit::ca::TestCa;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::server::{FakeServer, FakeServerOptions};
use crate::support::{client, credential, get, settings, whole, with_timeout};

async fn refused(server: &FakeServer, roots: TrustRoots, name: Option<&str>) -> String {
    let mut settings = settings(&server.url(), "");
    settings.roots = roots;
    settings.tls_server_name = name.map(str::to_owned);
    with_timeout(get(&HttpClient::new(settings).unwrap(), "/")).await.unwrap_err().to_string()
}

fn pem(ca: &TestCa) -> TrustRoots {
    TrustRoots::Pem(ca.pem().into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_certificate_error_has_reason() {
    let prefix = |server: &FakeServer| format!("invalid certificate of {}: ", server.at);
    let unknown = "issued by an unknown certificate authority";

    let server = FakeServer::start().await;
    assert_eq!(refused(&server, pem(&TestCa::new()), None).await, prefix(&server) + unknown);
    assert_eq!(refused(&server, TrustRoots::Platform, None).await, prefix(&server) + unknown);
    let other = "valid for 127.0.0.1, localhost, not for api.example";
    assert_eq!(refused(&server, pem(&server.ca), Some("api.example")).await, prefix(&server) + other);

    let ca = TestCa::new();
    let expired = Some(ca.server().expired().issue());
    let server = FakeServer::under(ca, FakeServerOptions { identity: expired, ..FakeServerOptions::default() }).await;
    let error = refused(&server, pem(&server.ca), None).await;
    assert!(error.starts_with(&(prefix(&server) + "expired at 20")), "{error}");

    let ca = TestCa::new();
    let for_clients = Some(ca.client("jane").for_host("localhost").issue());
    let server =
        FakeServer::under(ca, FakeServerOptions { identity: for_clients, ..FakeServerOptions::default() }).await;
    let error = refused(&server, pem(&server.ca), Some("localhost")).await;
    assert_eq!(error, prefix(&server) + "not valid for servers (extended key usage)");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_server_name_is_verified() {
    let ca = TestCa::new();
    let identity = Some(ca.server().for_host("api.example").issue());
    let server = FakeServer::under(ca, FakeServerOptions { identity, ..FakeServerOptions::default() }).await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.tls_server_name = Some("api.example".into());
    with_timeout(get(&HttpClient::new(settings).unwrap(), "/")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchecked_means_anyone() {
    let ca = TestCa::new();
    let identity = Some(ca.server().for_host("other.example").expired().issue());
    for tls12 in [true, false] {
        let server =
            FakeServer::with(FakeServerOptions { identity: identity.clone(), tls12, ..FakeServerOptions::default() })
                .await;
        let mut settings = settings(&server.url(), "");
        settings.roots = TrustRoots::Unchecked;
        with_timeout(get(&HttpClient::new(settings).unwrap(), "/")).await.unwrap();
    }
}

/// Returns the reason for which the server rejected the client certificate. In TLS 1.3 the alert arrives after the
/// handshake, and the kernel may discard it if the request crosses it, so this retries.
async fn refusal(client: &HttpClient) -> String {
    loop {
        match with_timeout(get(client, "/")).await.unwrap_err() {
            HttpError::Handshake { reason, .. } => return reason,
            HttpError::ConnectionLost { .. } => {}
            other => panic!("{}", whole(&other)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_rejected_client_certificate() {
    for tls12 in [true, false] {
        for protocol in ["h2", "http/1.1"] {
            let server = FakeServer::with(FakeServerOptions {
                mutual: true,
                tls12,
                alpn: vec![protocol],
                ..FakeServerOptions::default()
            })
            .await;
            let client = client(&server);
            assert!(refusal(&client).await.starts_with("client certificate re"), "{protocol}");
            client.publish(credential(1, "t", Some(&TestCa::new().client("stranger").issue()))).unwrap();
            let reason = refusal(&client).await;
            assert!(reason.starts_with("client certificate rejected"), "{protocol} {reason}");
            client.publish(credential(2, "t", Some(&server.ca.client("jane").issue()))).unwrap();
            assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("jane t "));
        }
    }
}

/// Route whose third write, the request, fails because the peer has closed, and whose first read after that is pending
/// although data is available.
#[derive(Debug)]
struct Late(std::net::SocketAddr);

struct LateWire {
    stream: TcpStream,
    writes: usize,
    looks: usize,
}

impl Route for Late {
    fn connect<'a>(&'a self, _: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(async {
            let stream = TcpStream::connect(self.0).await.unwrap();
            Ok(Box::new(LateWire { stream, writes: 0, looks: 0 }) as _)
        })
    }
}

impl AsyncRead for LateWire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.looks += usize::from(self.writes > 2);
        if self.writes > 2 && self.looks < 10 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LateWire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes += 1;
        if self.writes > 2 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn alert_is_read_after_failed_write() {
    for protocol in ["h2", "http/1.1"] {
        let options = FakeServerOptions { mutual: true, alpn: vec![protocol], ..FakeServerOptions::default() };
        let server = FakeServer::with(options).await;
        let mut settings = settings(&server.url(), server.ca.pem());
        settings.route = Some(Arc::new(Late(server.at)));
        let client = HttpClient::new(settings).unwrap();
        client.publish(credential(1, "t", Some(&TestCa::new().client("stranger").issue()))).unwrap();
        let error = whole(&with_timeout(get(&client, "/")).await.unwrap_err());
        assert!(error.contains("client certificate rejected"), "{protocol}: {error}");
    }
}

async fn says(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let _ = tcp.write_all(bytes).await;
        let mut rest = Vec::new();
        if bytes.is_empty() {
            return;
        }
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut tcp, &mut rest).await;
    });
    let client = HttpClient::new(settings(&format!("https://{at}"), TestCa::new().pem())).unwrap();
    let error = with_timeout(get(&client, "/")).await.unwrap_err();
    error.to_string().replace(&at.to_string(), "it")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_server_without_tls() {
    assert_eq!(says(b"HTTP/1.0 400 Bad Request\r\n\r\n").await, "TLS handshake with it failed: not a TLS server");
    let closed = says(b"").await;
    assert!(closed.starts_with("TLS handshake with it failed: "), "{closed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_settings_fail_early() {
    let server = FakeServer::start().await;
    let broken = |change: fn(&mut credlet_http::ClientSettings)| {
        let mut settings = settings(&server.url(), server.ca.pem());
        change(&mut settings);
        HttpClient::new(settings).unwrap_err().to_string()
    };
    let no_ca = "invalid certificate authorities: missing PEM certificate";
    assert_eq!(broken(|settings| settings.roots = TrustRoots::Pem(Vec::new())), no_ca);
    assert_eq!(broken(|settings| settings.roots = TrustRoots::Pem(b"not PEM".to_vec())), no_ca);
    let name = "invalid server address: it has a host that is not a valid TLS server name";
    assert_eq!(broken(|settings| settings.tls_server_name = Some("not a name".into())), name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verification_uses_the_injected_clock() {
    #[derive(Debug)]
    struct In2055(credlet_platform::SystemClock);
    impl credlet_platform::Clock for In2055 {
        fn now(&self) -> jiff::Timestamp {
            "2055-01-01T00:00:00Z".parse().unwrap()
        }
        fn monotonic(&self) -> std::time::Duration {
            self.0.monotonic()
        }
        fn sleep(&self, duration: std::time::Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            self.0.sleep(duration)
        }
    }
    let server = FakeServer::start().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.clock = Arc::new(In2055(credlet_platform::SystemClock::new()));
    let error = with_timeout(get(&HttpClient::new(settings).unwrap(), "/")).await.unwrap_err();
    assert!(matches!(error, HttpError::Certificate { .. }), "{error:?}");
}
