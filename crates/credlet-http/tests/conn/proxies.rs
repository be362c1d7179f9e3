//! Connections through minimal HTTP, HTTPS and SOCKS proxies.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use credlet_http::{BoxedStream, ConnectFuture, HostPort, HttpClient, HttpError, ProxyAddr, Route};
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::support::server::FakeServer;
use crate::support::{bearer, get, settings, whole, with_timeout};

/// Data that a proxy received before it started to forward.
type Heads = Arc<Mutex<Vec<String>>>;

/// Responds to `CONNECT` with a status line and connects to the requested target.
async fn http_proxy(answer: &'static str, tls: Option<TlsAcceptor>) -> (SocketAddr, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, heads) = (listener.local_addr().unwrap(), Heads::default());
    let seen = heads.clone();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let (seen, tls) = (seen.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(tcp).await {
                            connect(stream, answer, seen).await;
                        }
                    }
                    None => connect(tcp, answer, seen).await,
                }
            });
        }
    });
    (at, heads)
}

async fn connect(mut client: impl AsyncRead + AsyncWrite + Unpin, answer: &str, seen: Heads) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    seen.lock().unwrap().push(head);
    client.write_all(answer.as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    if answer.contains(" 200 ") && target.contains(':') {
        let mut server = TcpStream::connect(target).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}

const FINE: &str = "HTTP/1.1 200 Connection established\r\nX-Whatever: yes\r\n\r\n";

/// Requires the password, if any, and replies with this code.
async fn socks_proxy(password: Option<(&'static str, &'static str)>, code: u8) -> (SocketAddr, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, heads) = (listener.local_addr().unwrap(), Heads::default());
    let seen = heads.clone();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(socks(tcp, password, code, seen.clone()));
        }
    });
    (at, heads)
}

async fn socks(mut tcp: TcpStream, password: Option<(&str, &str)>, code: u8, seen: Heads) -> Option<()> {
    let mut head = [0; 2];
    tcp.read_exact(&mut head).await.ok()?;
    let mut methods = vec![0; head[1].into()];
    tcp.read_exact(&mut methods).await.ok()?;
    let method = if password.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        tcp.write_all(&[5, 0xff]).await.ok()?;
        return None;
    }
    tcp.write_all(&[5, method]).await.ok()?;
    if let Some(expected) = password {
        tcp.read_u8().await.ok()?;
        let (name, word) = (text(&mut tcp).await?, text(&mut tcp).await?);
        let wrong = u8::from((name.as_str(), word.as_str()) != expected);
        tcp.write_all(&[1, wrong]).await.ok()?;
    }
    let mut request = [0; 4];
    tcp.read_exact(&mut request).await.ok()?;
    let host = match request[3] {
        1 => std::net::Ipv4Addr::from(tcp.read_u32().await.ok()?).to_string(),
        3 => text(&mut tcp).await?,
        other => panic!("an address of kind {other}"),
    };
    let target = format!("{host}:{}", tcp.read_u16().await.ok()?);
    seen.lock().unwrap().push(target.clone());
    tcp.write_all(&[5, code, 0, 3, 1, b'x', 0, 0]).await.ok()?;
    if code == 0 {
        let mut server = TcpStream::connect(target).await.ok()?;
        tokio::io::copy_bidirectional(&mut tcp, &mut server).await.ok()?;
    }
    Some(())
}

async fn text(tcp: &mut TcpStream) -> Option<String> {
    let length = tcp.read_u8().await.ok()?;
    let mut bytes = vec![0; length.into()];
    tcp.read_exact(&mut bytes).await.ok()?;
    String::from_utf8(bytes).ok()
}

fn through(url: &str, server: &str, ca: &str) -> HttpClient {
    let mut settings = settings(server, ca);
    settings.proxy = Some(ProxyAddr::parse(url).unwrap());
    HttpClient::new(settings).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_proxy_tunnels_tls() {
    let watch = LeakCheck::new();
    let password = watch.secret("password").expose().replace('+', "-");
    let server = FakeServer::start().await;
    let (at, heads) = http_proxy(FINE, None).await;
    let client = through(&format!("http://jane:{password}@{at}"), &server.url(), server.ca.pem());
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=true");
    let expected = format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\nProxy-Authorization: Basic ", server.at);
    let heads = heads.lock().unwrap();
    assert!(heads.len() == 1 && heads[0].starts_with(&expected), "{}", heads[0]);
    watch.text(format!("{client:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_proxy_refusal_omits_password() {
    let watch = LeakCheck::new();
    let password = watch.secret("password").expose().replace('+', "-");
    watch.adopt("password in the URL", &password);
    let server = FakeServer::start().await;
    for (answer, user, reason) in [
        ("HTTP/1.1 403 No\r\n\r\n", "", "403 Forbidden"),
        ("HTTP/1.1 407 No\r\n\r\n", "", "user name and password required (407)"),
        ("HTTP/1.0 407 No\r\n\r\n", "jane", "user name or password rejected (407)"),
        ("SSH-2.0-x\r\n\r\n", "", "invalid HTTP response"),
        ("HTTP/1.1 200 OK\r\n\r\nSSH-2.0-x", "", "unexpected data after the response head"),
        ("", "", "connection closed by the proxy"),
    ] {
        let (at, _) = http_proxy(answer, None).await;
        let user = if user.is_empty() { String::new() } else { format!("{user}:{password}@") };
        let client = through(&format!("http://{user}{at}"), &server.url(), server.ca.pem());
        let error = with_timeout(get(&client, "/")).await.unwrap_err();
        watch.error(&error);
        assert_eq!(error.to_string(), format!("proxy {at} failed to connect to {}: {reason}", server.at));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_proxy_is_named() {
    let server = FakeServer::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.proxy = Some(ProxyAddr::parse(&format!("http://{at}")).unwrap());
    settings.timeouts.connect = Duration::from_millis(200);
    let client = HttpClient::new(settings).unwrap();
    let error = with_timeout(get(&client, "/")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("connection to {at} timed out after 0.2 s (connecting)"));
    drop(listener);
    let error = with_timeout(get(&client, "/")).await.unwrap_err();
    assert_eq!(whole(&error), format!("{at} cannot be reached: Connection refused (os error 111)"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socks_proxy_with_and_without_password() {
    let server = FakeServer::start().await;
    let port = server.at.port();
    for (password, user) in [(None, ""), (None, "jane:pw@"), (Some(("jane", "p:w")), "jane:p%3Aw@")] {
        let (at, seen) = socks_proxy(password, 0).await;
        for host in ["localhost", "127.0.0.1"] {
            let client = through(&format!("socks5://{user}{at}"), &format!("https://{host}:{port}"), server.ca.pem());
            with_timeout(get(&client, "/")).await.unwrap();
        }
        assert_eq!(*seen.lock().unwrap(), [format!("localhost:{port}"), format!("127.0.0.1:{port}")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socks_proxy_refusal_has_reason() {
    let server = FakeServer::start().await;
    for (password, user, code, reason) in [
        (None, "", 5, "connection refused"),
        (None, "", 2, "not allowed by its rules"),
        (Some(("jane", "pw")), "", 0, "user name and password required"),
        (Some(("jane", "pw")), "jane:no@", 0, "user name or password rejected"),
    ] {
        let (at, _) = socks_proxy(password, code).await;
        let client = through(&format!("socks5://{user}{at}"), &server.url(), server.ca.pem());
        let error = with_timeout(get(&client, "/")).await.unwrap_err();
        assert_eq!(error.to_string(), format!("proxy {at} failed to connect to {}: {reason}", server.at));
    }
}

fn acceptor(ca: &TestCa, host: &str) -> TlsAcceptor {
    let own = if host.is_empty() { ca.server().issue() } else { ca.server().for_host(host).issue() };
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert_der()], own.key_der())
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_proxy_certificate_is_verified() {
    let server = FakeServer::start().await;
    let (at, _) = http_proxy(FINE, Some(acceptor(&server.ca, ""))).await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.proxy = Some(ProxyAddr::parse(&format!("https://{at}")).unwrap());
    // `tls_server_name` applies to the server only.
    settings.tls_server_name = Some("localhost".into());
    with_timeout(get(&HttpClient::new(settings).unwrap(), "/")).await.unwrap();

    let (at, heads) = http_proxy(FINE, Some(acceptor(&server.ca, "other.example"))).await;
    let client = through(&format!("https://jane:pw@{at}"), &server.url(), server.ca.pem());
    let error = with_timeout(get(&client, "/")).await.unwrap_err();
    let reason = "valid for other.example, not for 127.0.0.1";
    assert_eq!(error.to_string(), format!("invalid certificate of {at}: {reason}"));
    assert_eq!(heads.lock().unwrap().len(), 0, "the password was not sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_proxy_forwards_plain_requests() {
    let (at, heads) = http_proxy("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", None).await;
    let client = through(&format!("http://jane:pw@{at}"), "http://api.example:8080", "");
    assert_eq!(with_timeout(get(&client, "/version?x=1")).await.unwrap(), "hi");
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("GET http://api.example:8080/version?x=1 HTTP/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("proxy-authorization: Basic amFuZTpwdw==\r\n"), "{}", heads[0]);
}

/// Route to a Unix socket, like that of an exec proxy.
#[derive(Debug)]
struct Socket(std::path::PathBuf);

impl Route for Socket {
    fn connect<'a>(&'a self, _: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(async move {
            match tokio::net::UnixStream::connect(&self.0).await {
                Ok(stream) => Ok(Box::new(stream) as BoxedStream),
                Err(error) => Err(HttpError::Unreachable { host: "the socket".into(), source: Arc::new(error) }),
            }
        })
    }

    fn is_private(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_route_uses_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let heads = Heads::default();
    let seen = heads.clone();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        connect(stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", seen).await;
    });
    let mut settings = settings("https://api.example:6443", "");
    settings.route = Some(Arc::new(Socket(path)));
    let client = HttpClient::new(settings).unwrap();
    client.publish(credlet_http::HttpCredential::new(1, Some(bearer("t1")), None)).unwrap();
    assert_eq!(with_timeout(get(&client, "/version")).await.unwrap(), "hi");
    let head = heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("GET /version HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("host: api.example:6443\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer t1\r\n"), "{head}");
}
