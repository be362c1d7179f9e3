//! Whom we believe, and what is said when we do not. The ten cases of a bundle are in `src/conn/verifier.rs`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use credlet_client::conn::{Client, Connecting, Error, Roots, Route, Target};
use credlet_testkit::ca::Ca;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::server::{Options, Server, TLS12, TLS13};
use crate::support::{client, credential, get, settings, soon, whole};

async fn refused(server: &Server, roots: Roots, name: Option<&str>) -> String {
    let mut settings = settings(&server.url(), "");
    settings.roots = roots;
    settings.tls_server_name = name.map(str::to_owned);
    soon(get(&Client::new(settings).unwrap(), "/")).await.unwrap_err().to_string()
}

fn pem(ca: &Ca) -> Roots {
    Roots::Pem(ca.pem().into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_certificate_is_refused_with_the_reason_in_words() {
    let prefix = |server: &Server| format!("the certificate of {} is not accepted: ", server.at);
    let unknown = "it was not issued by a certificate authority that is trusted here";

    let server = Server::start().await;
    assert_eq!(refused(&server, pem(&Ca::new()), None).await, prefix(&server) + unknown);
    assert_eq!(refused(&server, Roots::Platform, None).await, prefix(&server) + unknown);
    let other = "it is for 127.0.0.1, localhost and not for api.example";
    assert_eq!(refused(&server, pem(&server.ca), Some("api.example")).await, prefix(&server) + other);

    let ca = Ca::new();
    let expired = Some(ca.server().expired().issue());
    let server = Server::under(ca, Options { identity: expired, ..Options::default() }).await;
    let error = refused(&server, pem(&server.ca), None).await;
    assert!(error.starts_with(&(prefix(&server) + "it expired at 20")), "{error}");

    let ca = Ca::new();
    let for_clients = Some(ca.client("jane").for_host("localhost").issue());
    let server = Server::under(ca, Options { identity: for_clients, ..Options::default() }).await;
    let error = refused(&server, pem(&server.ca), Some("localhost")).await;
    assert_eq!(error, prefix(&server) + "it is not meant for a server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_to_expect_can_be_given() {
    let ca = Ca::new();
    let identity = Some(ca.server().for_host("api.example").issue());
    let server = Server::under(ca, Options { identity, ..Options::default() }).await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.tls_server_name = Some("api.example".into());
    soon(get(&Client::new(settings).unwrap(), "/")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchecked_means_anyone() {
    let ca = Ca::new();
    let identity = Some(ca.server().for_host("other.example").expired().issue());
    for versions in [TLS12, TLS13] {
        let server = Server::with(Options { identity: identity.clone(), versions, ..Options::default() }).await;
        let mut settings = settings(&server.url(), "");
        settings.roots = Roots::Unchecked;
        soon(get(&Client::new(settings).unwrap(), "/")).await.unwrap();
    }
}

/// With TLS 1.3 the refusal comes after the handshake, and the system throws it away if our request crosses it: then
/// only the end of the connection is seen.
async fn refusal(client: &Client) -> String {
    loop {
        match soon(get(client, "/")).await.unwrap_err() {
            Error::Handshake { reason, .. } => return reason,
            Error::Broken { .. } => {}
            other => panic!("{}", whole(&other)),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_accept_our_certificate_is_said_to() {
    for versions in [TLS12, TLS13] {
        for protocol in ["h2", "http/1.1"] {
            let server =
                Server::with(Options { mutual: true, versions, alpn: vec![protocol], ..Options::default() }).await;
            let client = client(&server);
            assert!(refusal(&client).await.starts_with("it "), "{protocol}");
            client.publish(credential(1, "t", Some(&Ca::new().client("stranger").issue()))).unwrap();
            let reason = refusal(&client).await;
            assert!(reason.starts_with("it does not accept our client certificate"), "{protocol} {reason}");
            client.publish(credential(2, "t", Some(&server.ca.client("jane").issue()))).unwrap();
            assert!(soon(get(&client, "/")).await.unwrap().starts_with("jane t "));
        }
    }
}

/// A way on which the third thing that is written, which is the request, finds nobody who listens; and on which it is not
/// known at once that there is something to read.
#[derive(Debug)]
struct Late(std::net::SocketAddr);

struct LateWire {
    stream: TcpStream,
    writes: usize,
    looks: usize,
}

impl Route for Late {
    fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
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
async fn why_a_server_refuses_is_heard_although_it_does_not_listen_any_more() {
    for protocol in ["h2", "http/1.1"] {
        let options = Options { mutual: true, versions: TLS13, alpn: vec![protocol], ..Options::default() };
        let server = Server::with(options).await;
        let mut settings = settings(&server.url(), server.ca.pem());
        settings.route = Some(Arc::new(Late(server.at)));
        let client = Client::new(settings).unwrap();
        client.publish(credential(1, "t", Some(&Ca::new().client("stranger").issue()))).unwrap();
        let error = whole(&soon(get(&client, "/")).await.unwrap_err());
        assert!(error.contains("it does not accept our client certificate"), "{protocol}: {error}");
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
    let client = Client::new(settings(&format!("https://{at}"), Ca::new().pem())).unwrap();
    let error = soon(get(&client, "/")).await.unwrap_err();
    error.to_string().replace(&at.to_string(), "it")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_speak_tls_is_said_not_to() {
    assert_eq!(says(b"HTTP/1.0 400 Bad Request\r\n\r\n").await, "no TLS connection with it: it does not speak TLS");
    let closed = says(b"").await;
    assert!(closed.starts_with("no TLS connection with it: "), "{closed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_said_before_anything_is_sent() {
    let server = Server::start().await;
    let broken = |change: fn(&mut credlet_client::conn::Settings)| {
        let mut settings = settings(&server.url(), server.ca.pem());
        change(&mut settings);
        Client::new(settings).unwrap_err().to_string()
    };
    let no_ca = "the certificate authorities hold no certificate in PEM";
    assert_eq!(broken(|settings| settings.roots = Roots::Pem(Vec::new())), no_ca);
    assert_eq!(broken(|settings| settings.roots = Roots::Pem(b"not PEM".to_vec())), no_ca);
    let name = "the server's address has a host that no certificate can be for";
    assert_eq!(broken(|settings| settings.tls_server_name = Some("not a name".into())), name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_judged_by_the_clock_that_is_given() {
    #[derive(Debug)]
    struct In2055(credlet_core::SystemClock);
    impl credlet_core::Clock for In2055 {
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
    let server = Server::start().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.clock = Arc::new(In2055(credlet_core::SystemClock::new()));
    let error = soon(get(&Client::new(settings).unwrap(), "/")).await.unwrap_err();
    assert!(matches!(error, Error::Certificate { .. }), "{error:?}");
}
