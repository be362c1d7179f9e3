//! Watches and upgraded connections.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use credlet_api::Secret;
use credlet_api::exec::Cluster;
use credlet_proxy::server::{ShutdownReason, SocketProtocol};
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::FakeApiServer as Upstream;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{AnyBody, FakeSigner, TestProxy, cluster, empty, text, within};

/// Accepts any upgrade, echoes each chunk and finally sends the number of bytes. On `/shy` it sends and closes its side
/// first and then reads. Also returns the total number of bytes read on closed connections.
pub(crate) fn talker(ca: &TestCa) -> (Upstream, Arc<AtomicUsize>) {
    let heard = Arc::new(AtomicUsize::new(0));
    let in_all = Arc::clone(&heard);
    let setup = Upstream::setup(ca).answering(move |mut request: Request<Incoming>| {
        let Some(protocol) = request.headers().get("upgrade").cloned() else {
            return ControlFlow::Continue(request);
        };
        if request.uri().path() == "/forbidden" {
            let body = Full::from(r#"{"kind":"Status","code":403}"#).boxed_unsync();
            return ControlFlow::Break(Box::pin(async { Response::builder().status(403).body(body).unwrap() }));
        }
        let shy = request.uri().path() == "/shy";
        let upgrade = hyper::upgrade::on(&mut request);
        let in_all = Arc::clone(&in_all);
        tokio::spawn(async move {
            let mut io = TokioIo::new(upgrade.await.unwrap());
            let (mut total, mut piece) = (0, [0; 64 << 10]);
            if shy {
                io.write_all(b"that is all").await.unwrap();
                io.shutdown().await.unwrap();
            }
            loop {
                match io.read(&mut piece).await.unwrap_or(0) {
                    0 => break,
                    read => {
                        total += read;
                        if !shy {
                            io.write_all(&piece[..read]).await.unwrap();
                        }
                    }
                }
            }
            in_all.fetch_add(total, Relaxed);
            if !shy {
                io.write_all(format!("heard {total}").as_bytes()).await.unwrap();
                io.shutdown().await.unwrap();
            }
        });
        ControlFlow::Break(Box::pin(async move {
            let body = Empty::new().map_err(|never: Infallible| never).boxed_unsync();
            let answer = Response::builder().status(101).header("upgrade", protocol).header("connection", "Upgrade");
            answer.header("x-stream-protocol-version", "v4").body(body).unwrap()
        }))
    });
    (setup.start(), heard)
}

fn upgrade(proxy: &TestProxy, path: &str, protocol: &str) -> Request<AnyBody> {
    Request::post(path)
        .header("host", &proxy.authority)
        .header("connection", "Upgrade")
        .header("upgrade", protocol)
        .header("x-stream-protocol-version", "v4.channel.k8s.io")
        .body(empty())
        .unwrap()
}

#[tokio::test]
async fn upgraded_connection_is_half_closable() {
    let ca = TestCa::new();
    let (upstream, heard) = talker(&ca);
    let proxy = TestProxy::start(FakeSigner::token("t"), &upstream, &ca).await;
    for protocol in ["SPDY/3.1", "websocket"] {
        let mut response = within(proxy.send(upgrade(&proxy, "/exec?command=sh", protocol))).await;
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(response.headers()["upgrade"], protocol);
        assert_eq!(response.headers()["x-stream-protocol-version"], "v4");
        let seen = upstream.last_request();
        assert_eq!((seen.bearer(), seen.alpn.as_deref()), (Some("t"), Some("http/1.1")));
        assert_eq!(seen.header("x-stream-protocol-version"), Some("v4.channel.k8s.io"));

        let mut io = TokioIo::new(within(hyper::upgrade::on(&mut response)).await.unwrap());
        io.write_all(b"hello").await.unwrap();
        let mut echoed = [0; 5];
        within(io.read_exact(&mut echoed)).await.unwrap();
        assert_eq!(&echoed, b"hello");
        // Our side is closed, the other is still open.
        io.shutdown().await.unwrap();
        let mut rest = String::new();
        within(io.read_to_string(&mut rest)).await.unwrap();
        assert_eq!(rest, "heard 5");
    }

    let before = heard.load(Relaxed);
    let mut response = within(proxy.send(upgrade(&proxy, "/shy", "websocket"))).await;
    let mut io = TokioIo::new(within(hyper::upgrade::on(&mut response)).await.unwrap());
    let mut all = String::new();
    within(io.read_to_string(&mut all)).await.unwrap();
    assert_eq!(all, "that is all");
    io.write_all(&[7; 100_000]).await.unwrap();
    io.shutdown().await.unwrap();
    drop(io);
    within(async {
        while heard.load(Relaxed) - before < 100_000 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn rejected_upgrade_is_a_normal_response() {
    let ca = TestCa::new();
    let (upstream, _) = talker(&ca);
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let response = proxy.send(upgrade(&proxy, "/forbidden", "SPDY/3.1")).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(text(response).await.contains("Status"));
    let mut request = upgrade(&proxy, "/version", "h2c");
    *request.method_mut() = http::Method::GET;
    let response = proxy.send(request).await;
    assert_eq!(response.status(), StatusCode::OK, "as if nobody had asked for it");
    assert_eq!(upstream.last_request().header("upgrade"), None);
}

#[tokio::test]
async fn upgraded_connection_is_closed_at_shutdown() {
    let ca = TestCa::new();
    let (upstream, _) = talker(&ca);
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let mut response = within(proxy.send(upgrade(&proxy, "/exec", "SPDY/3.1"))).await;
    let mut io = TokioIo::new(within(hyper::upgrade::on(&mut response)).await.unwrap());
    let metrics = proxy.control().metrics().await.unwrap();
    assert!(metrics.contains("credlet_proxy_upgraded_connections 1\n"), "{metrics}");
    proxy.control().stop().await.unwrap();
    assert_eq!(within(io.read(&mut [0; 1])).await.unwrap_or(0), 0);
    assert_eq!(within(proxy.running).await.unwrap(), ShutdownReason::Requested);
}

#[tokio::test]
async fn many_watches_do_not_stall() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).max_concurrent_streams(100).start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let mut watches = Vec::new();
    for _ in 0..300 {
        let mut sender = proxy.speak().await;
        let request = proxy.get("/watch?interval_ms=3600000");
        watches.push(tokio::spawn(async move {
            let mut response = sender.send_request(request).await.unwrap();
            let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(first.starts_with(b"{"));
            (sender, response)
        }));
    }
    let mut open = Vec::new();
    for watch in watches {
        open.push(within(watch).await.unwrap());
    }
    assert_eq!(within(proxy.send(proxy.get("/version"))).await.status(), StatusCode::OK);
    let metrics = proxy.control().metrics().await.unwrap();
    assert!(metrics.contains("credlet_proxy_open_streams 300\n"), "{metrics}");
    assert!(upstream.counts().open_connections < 10, "{:?}", upstream.counts());
    // A client that disconnects ends its watch.
    drop(open);
    within(async { while proxy.control().status().await.unwrap().open > 0 {} }).await;
}

/// An HTTP proxy. Returns its address and counts its tunnels.
async fn existing_proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://ada:hunter2@{}", listener.local_addr().unwrap());
    let tunnels = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tunnels);
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                assert!(head.to_lowercase().contains("proxy-authorization: basic "), "{head}");
                let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
                count.fetch_add(1, Relaxed);
                let mut server = TcpStream::connect(target).await.unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (url, tunnels)
}

#[tokio::test]
async fn upstream_proxy_is_used() {
    let ca = TestCa::new();
    let (upstream, _) = talker(&ca);
    let (url, tunnels) = existing_proxy().await;
    let cluster = Cluster { proxy_url: Secret::new(url), ..cluster(&upstream, &ca) };
    let proxy = TestProxy::start_with(FakeSigner::nothing(), &cluster, |options| {
        options.socket_protocol = SocketProtocol::Plain
    })
    .await;
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
    assert_eq!(tunnels.load(Relaxed), 1);
    let response = within(proxy.send(upgrade(&proxy, "/exec", "SPDY/3.1"))).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    // The connection was closed, so a new one is needed.
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
    let again = within(proxy.send(upgrade(&proxy, "/exec", "SPDY/3.1"))).await;
    assert_eq!(again.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(tunnels.load(Relaxed), 2);
    assert_eq!(upstream.counts().connections, 2, "and nothing went past it");
}
