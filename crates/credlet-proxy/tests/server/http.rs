//! Requests and responses through the proxy.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::support::{FakeSigner, TestProxy, empty, text, whole, within};
use bytes::Bytes;
use credlet_proxy::sign::BodyDigestRule;
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::server::{FakeApiServer as Upstream, Fault};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const MIB: usize = 1 << 20;

/// Echoes the body, and the head in response headers.
fn echo(ca: &TestCa) -> Upstream {
    let setup = Upstream::setup(ca).answering(|request| {
        if !request.uri().path().starts_with("/stream") {
            return ControlFlow::Continue(request);
        }
        let (head, body) = request.into_parts();
        ControlFlow::Break(Box::pin(async move {
            let body = body.map_err(|_| -> Infallible { unreachable!() });
            let mut response = Response::new(body.boxed_unsync());
            if let Some(trailer) = head.headers.get("trailer") {
                response.headers_mut().insert("trailer", trailer.clone());
            }
            response
        }))
    });
    setup.start()
}

/// This many zero bytes, generated in chunks.
struct Zeros(usize);

impl Body for Zeros {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        static PIECE: [u8; 64 << 10] = [0; 64 << 10];
        if self.0 == 0 {
            return Poll::Ready(None);
        }
        let piece = self.0.min(PIECE.len());
        self.0 -= piece;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PIECE[..piece])))))
    }
}

#[tokio::test]
async fn large_bodies_stream_both_ways() {
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::token("t"), &upstream, &ca).await;
    let request = Request::post("/stream?x=1").header("host", &proxy.authority).body(Zeros(64 * MIB).boxed_unsync());
    let mut body = within(proxy.send(request.unwrap())).await.into_body();
    let mut received = 0;
    while let Some(frame) = within(body.frame()).await {
        received += frame.unwrap().into_data().unwrap().len();
    }
    assert_eq!(received, 64 * MIB);
}

#[tokio::test]
async fn adds_only_the_signers_credential() {
    let watch = LeakCheck::new();
    let (token, local) = (watch.secret("token"), watch.secret("local token"));
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::token(token.expose()), &upstream, &ca).await;
    let request = Request::get("/echo/%2e%2e/../a//b;c?watch=1&&q=a%2Fb+c")
        .header("host", &proxy.authority)
        .header("authorization", format!("Bearer {}", local.expose()))
        .header("proxy-authorization", "Basic eDp5")
        .header("connection", "x-hop, close")
        .header("x-hop", "1")
        .header("x-remote-user", "root")
        .header("x-remote-extra-scopes", "all")
        .header("impersonate-user", "ada")
        .header("accept-encoding", "gzip")
        .header("user-agent", "test/1")
        .body(empty())
        .unwrap();
    let response = proxy.send(request).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let seen = upstream.last_request();
    assert_eq!(seen.path, "/echo/%2e%2e/../a//b;c?watch=1&&q=a%2Fb+c");
    assert_eq!(seen.bearer(), Some(token.expose()));
    let mut names: Vec<&str> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.retain(|name| *name != "host");
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "authorization", "impersonate-user", "user-agent"]);
}

#[tokio::test]
async fn other_authority_is_misdirected() {
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let authority = &proxy.authority;
    let whole_url = format!("GET https://{authority}/version HTTP/1.1\r\nHost: whatever\r\nConnection: close\r\n\r\n");
    assert!(proxy.raw(whole_url).await.starts_with("HTTP/1.1 200 "));
    let no_path = format!("GET https://{authority}?a=b HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    assert!(proxy.raw(no_path).await.starts_with("HTTP/1.1 404 "));
    assert_eq!(upstream.last_request().path, "/?a=b");
    for wrong in [
        "GET /version HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_owned(),
        "GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".to_owned(),
        format!("GET https://evil.example/version HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"),
        format!("GET https://{authority}.evil/version HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"),
    ] {
        let answer = proxy.raw(&wrong).await;
        assert!(answer.starts_with("HTTP/1.1 421 "), "{wrong}{answer}");
        assert!(answer.contains("exec-proxy-error: other-server"), "{answer}");
    }
    for wrong in [
        "GET /version HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(),
        format!("GET /version HTTP/1.1\r\nHost: {authority}\r\nHost: {authority}\r\nConnection: close\r\n\r\n"),
        format!("OPTIONS * HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"),
    ] {
        let answer = proxy.raw(&wrong).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{wrong}{answer}");
    }
    let tunnel = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    assert!(proxy.raw(tunnel).await.starts_with("HTTP/1.1 405 "));
    assert_eq!(upstream.counts().requests, 2, "none of the others went out");
}

#[tokio::test]
async fn two_lengths_are_not_smuggled() {
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    let head = |rest: &str| format!("POST /stream HTTP/1.1\r\nHost: {}\r\n{rest}", proxy.authority);
    for (what, sent) in [
        ("both", head(&format!("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"))),
        ("two lengths", head(&format!("Content-Length: 0\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()))),
        ("an unknown coding", head(&format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"))),
        ("chunked not last", head(&format!("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"))),
        ("a signed length", head(&format!("Content-Length: +0\r\n\r\n{hidden}"))),
        ("a folded line", head(&format!("X: y\r\n Transfer-Encoding: chunked\r\n\r\n{hidden}"))),
        ("a space before the colon", head(&format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"))),
        ("a bare CR", head(&format!("X: y\rTransfer-Encoding: chunked\r\n\r\n{hidden}"))),
        (
            "an overlong chunk size",
            head(&format!("Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff0\r\n\r\n{hidden}")),
        ),
    ] {
        let mut stream = proxy.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        within(stream.read_to_end(&mut answer)).await.unwrap();
        let hidden_arrived = upstream.requests().iter().any(|seen| seen.path.contains("hidden"));
        assert!(!hidden_arrived, "{what}: {}", String::from_utf8_lossy(&answer));
        for seen in upstream.requests() {
            let lengths = seen.headers.iter().filter(|(name, _)| name == "content-length").count();
            assert!(lengths == 0 || seen.header("transfer-encoding").is_none(), "{what}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn ambiguous_length_is_rejected() {
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    for (lines, body) in [
        ("Content-Length: 2\r\nContent-Length: 3", "abc"),
        ("Content-Length: 2, 2", "ab"),
        ("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: xchunked", "0\r\n\r\n"),
        ("X: y\r\n folded", ""),
    ] {
        let head = format!("POST /stream HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", proxy.authority);
        let answer = proxy.raw(format!("{head}{lines}\r\n\r\n{body}")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lines}: {answer}");
    }
    assert_eq!(upstream.counts().requests, 0);
}

/// Impersonation sends one header per group, and API servers send many warnings.
#[tokio::test]
async fn headers_are_limited_by_size() {
    let ca = TestCa::new();
    let many = 150;
    for alpn in ["h2", "http/1.1"] {
        let setup = Upstream::setup(&ca).alpn([alpn]).answering(move |request| {
            let groups = request.headers().get_all("impersonate-group").iter().count();
            ControlFlow::Break(Box::pin(async move {
                let mut response = Response::new(Full::from(format!("{groups} groups")).boxed_unsync());
                for at in 0..many {
                    let warning = HeaderValue::from_str(&format!("299 - \"{at}\"")).unwrap();
                    response.headers_mut().append("warning", warning);
                }
                response
            }))
        });
        let upstream = setup.start();
        let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
        // The test server accepts at most 100 headers over HTTP/1.1.
        let groups = if alpn == "h2" { many } else { 50 };
        let lines: String = (0..groups).map(|at| format!("Impersonate-Group: g{at}\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", proxy.authority);
        let answer = proxy.raw(format!("{head}{lines}\r\n")).await;
        assert!(answer.ends_with(&format!("{groups} groups")), "{alpn}: {answer}");
        assert_eq!(answer.matches("\r\nwarning: ").count(), many, "{alpn}");
    }
}

#[tokio::test]
async fn unrequested_upgrade_is_bad_gateway() {
    let ca = TestCa::new();
    let setup = Upstream::setup(&ca).alpn(["http/1.1"]).answering(|_| {
        let nothing = Full::from("").boxed_unsync();
        ControlFlow::Break(Box::pin(async { Response::builder().status(101).body(nothing).unwrap() }))
    });
    let upstream = setup.start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let response = proxy.send(proxy.get("/version")).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()["exec-proxy-error"], "broken");
}

#[tokio::test]
async fn trailers_are_forwarded() {
    for alpn in ["h2", "http/1.1"] {
        let ca = TestCa::new();
        let setup = Upstream::setup(&ca).alpn([alpn]).answering(|request| {
            let (head, body) = request.into_parts();
            ControlFlow::Break(Box::pin(async move {
                let mut response = Response::new(body.map_err(|_| -> Infallible { unreachable!() }).boxed_unsync());
                let trailer = head.headers.get("trailer").cloned().unwrap();
                response.headers_mut().insert("trailer", trailer);
                assert_eq!(head.headers["te"], "trailers");
                response
            }))
        });
        let upstream = setup.start();
        let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
        let sum = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("42"))]);
        let frames = Frames([Frame::data(Bytes::from_static(b"data")), Frame::trailers(sum)].into());
        let request = Request::post("/stream")
            .header("host", &proxy.authority)
            .header("connection", "te")
            .header("te", "trailers")
            .header("trailer", "x-sum")
            .body(frames.boxed_unsync())
            .unwrap();
        let body = within(proxy.send(request).await.into_body().collect()).await.unwrap();
        assert_eq!(body.trailers().unwrap()["x-sum"], "42", "{alpn}");
        assert_eq!(body.to_bytes(), "data");
    }
}

/// These frames, without a size hint.
struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

#[tokio::test]
async fn expect_continue_is_answered_locally() {
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let mut stream = proxy.connect().await;
    let head = format!(
        "POST /stream HTTP/1.1\r\nHost: {}\r\nExpect: 100-continue\r\nContent-Length: 4\r\nConnection: close\r\n\r\n",
        proxy.authority
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    within(stream.read_exact(&mut interim)).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").await.unwrap();
    let mut rest = String::new();
    within(stream.read_to_string(&mut rest)).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 200 ") && rest.ends_with("body"), "{rest}");
    assert_eq!(upstream.last_request().header("expect"), None);
}

#[tokio::test]
async fn signed_body_is_hashed_up_to_limit() {
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let post = |proxy: &TestProxy, body: &'static str, announced: bool| {
        let unannounced = Frames([Frame::data(Bytes::from_static(body.as_bytes()))].into());
        let body = if announced { whole(body) } else { unannounced.boxed_unsync() };
        Request::post("/stream").header("host", &proxy.authority).body(body).unwrap()
    };
    let hash_of_four = "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589";
    let signer = FakeSigner { rule: Some(BodyDigestRule::Hash { max: 4 }), ..FakeSigner::nothing() };
    let proxy = TestProxy::start(signer, &upstream, &ca).await;
    for announced in [true, false] {
        assert_eq!(text(proxy.send(post(&proxy, "abcd", announced)).await).await, "abcd");
        assert_eq!(upstream.last_request().header("x-digest"), Some(hash_of_four));
        let refused = proxy.send(post(&proxy, "abcde", announced)).await;
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(refused.headers()["exec-proxy-error"], "too-large");
    }
    assert_eq!(upstream.counts().requests, 2);

    let signer = FakeSigner { rule: Some(BodyDigestRule::HashUpTo { max: 4 }), ..FakeSigner::nothing() };
    let proxy = TestProxy::start(signer, &upstream, &ca).await;
    for announced in [true, false] {
        assert_eq!(text(proxy.send(post(&proxy, "abcd", announced)).await).await, "abcd");
        assert_eq!(upstream.last_request().header("x-digest"), Some(hash_of_four));
        assert_eq!(text(proxy.send(post(&proxy, "abcde", announced)).await).await, "abcde");
        assert_eq!(upstream.last_request().header("x-digest"), Some("unknown"));
    }
}

#[tokio::test]
async fn errors_are_marked_status_objects() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::token(token.expose()), &upstream, &ca).await;
    // The API server's own response passes unchanged.
    for code in [307, 401, 403, 404, 429, 500, 503] {
        upstream.inject(1, Fault::Status(code));
        let response = proxy.send(proxy.get("/version")).await;
        assert_eq!(response.status().as_u16(), code);
        assert!(response.headers().get("exec-proxy-error").is_none());
        assert!(text(response).await.contains(&format!("\"code\":{code}")));
    }
    upstream.stop().await;
    let response = proxy.send(proxy.get(&format!("/version?token={}", token.expose()))).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()["exec-proxy-error"], "unreachable");
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = text(response).await;
    watch.text(&body);
    assert!(body.contains(r#""kind":"Status""#) && body.contains(&proxy.authority), "{body}");
    let access: Vec<_> = watch.lines().into_iter().filter(|line| line.contains("/version")).collect();
    assert!(!access.is_empty(), "the access log has the request");
}

#[tokio::test]
async fn aborted_response_is_flushed_then_aborted() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).alpn(["http/1.1"]).start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    upstream.inject(1, Fault::CutMidBody);
    let answer = proxy.raw(format!("GET /version HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.authority)).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer:?}"));
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-length: 32768"), "{head}");
    assert!(!body.is_empty() && body.len() < 32768);
    assert_eq!(upstream.counts().requests, 1);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let request = |size| {
        let mut request = proxy.get("/version");
        request.headers_mut().insert("x-large", HeaderValue::from_str(&"x".repeat(size)).unwrap());
        request
    };
    assert_eq!(proxy.send(request(8 << 10)).await.status(), StatusCode::OK);
    assert_eq!(proxy.send(request(80 << 10)).await.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test]
async fn early_response_is_forwarded() {
    let ca = TestCa::new();
    let setup = Upstream::setup(&ca).answering(|_| {
        let full = Full::from("too much").boxed_unsync();
        ControlFlow::Break(Box::pin(async { Response::builder().status(413).body(full).unwrap() }))
    });
    let upstream = setup.start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let request = Request::builder().method(Method::PUT).uri("/x").header("host", &proxy.authority);
    let response = within(proxy.send(request.body(Zeros(4 * MIB).boxed_unsync()).unwrap())).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn trace_is_rejected_before_signing() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::token(token.expose()), &upstream, &ca).await;
    for method in ["TRACE", "TRACK", "trace", "Trace", "track", "DEBUG"] {
        for target in ["/version".to_owned(), format!("https://{}/version", proxy.authority)] {
            let sent = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", proxy.authority);
            let answer = proxy.raw(&sent).await;
            assert!(answer.starts_with("HTTP/1.1 405 "), "{sent}{answer}");
            assert!(answer.contains("\r\nallow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"), "{answer}");
            watch.text(answer);
        }
    }
    assert_eq!(upstream.counts().requests, 0);
}

#[tokio::test]
async fn override_headers_are_not_forwarded() {
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let names = ["x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url"];
    let mut request = proxy.get("/version");
    for name in names.iter().chain(&["x-forwarded-host", "x-forwarded-prefix"]) {
        request.headers_mut().insert(*name, HeaderValue::from_static("TRACE"));
    }
    request.headers_mut().insert("x-forwarded-for", HeaderValue::from_static("10.0.0.1"));
    assert_eq!(within(proxy.send(request)).await.status(), StatusCode::OK);
    let seen = upstream.last_request();
    let mut names: Vec<_> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.retain(|name| name.starts_with("x-"));
    assert_eq!(names, ["x-forwarded-for"]);
}

#[tokio::test]
async fn gateway_headers_do_not_reach_pods() {
    let watch = LeakCheck::new();
    let secret = watch.secret("gateway header");
    let ca = TestCa::new();
    let upstream = echo(&ca);
    let headers = [("X-Gateway", &secret), ("Authorization", &secret)];
    let signer = credlet_proxy::sign::HeaderSigner::fixed(headers).unwrap();
    let proxy = TestProxy::start(signer, &upstream, &ca).await;
    for (path, gets_it) in [
        ("/version", true),
        ("/api/v1/namespaces/x/pods", true),
        ("/api/v1/namespaces/x/services/echo/proxy/", false),
        ("/api/v1/namespaces/x/services/echo/%70roxy/", false),
        ("/api/v1/namespaces/x/pods/http:echo:80/proxy/a", false),
        ("/api/v1/nodes/one/proxy/metrics", false),
        ("/api/v1/namespaces/x//services/echo/proxy/", false),
    ] {
        within(proxy.send(proxy.get(path))).await;
        let seen = upstream.last_request();
        assert_eq!(seen.path, path);
        assert_eq!(seen.header("x-gateway").is_some(), gets_it, "{path}");
        assert!(seen.header("authorization").is_some(), "the API server removes it itself");
    }
}
