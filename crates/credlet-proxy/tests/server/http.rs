//! What the proxy does to requests and answers, and what it leaves alone.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::support::{Proxy, Simple, empty, text, whole, within};
use bytes::Bytes;
use credlet_proxy::sign::BodyRule;
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::server::{Order, Server as Upstream};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const MIB: usize = 1 << 20;

/// Sends every body back as it comes, with what was in the head in the answer's.
fn echo(ca: &Ca) -> Upstream {
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

/// So many bytes, in pieces, none of them kept.
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
async fn sixty_four_mebibytes_go_both_ways_at_once_and_the_request_is_as_the_client_sent_it() {
    let ca = Ca::new();
    let upstream = echo(&ca);
    let proxy = Proxy::start(Simple::token("t"), &upstream, &ca).await;
    let request = Request::post("/stream?x=1").header("host", &proxy.authority).body(Zeros(64 * MIB).boxed_unsync());
    let mut body = within(proxy.send(request.unwrap())).await.into_body();
    let mut received = 0;
    while let Some(frame) = within(body.frame()).await {
        received += frame.unwrap().into_data().unwrap().len();
    }
    assert_eq!(received, 64 * MIB);
}

#[tokio::test]
async fn the_signers_credential_goes_out_and_nothing_else_is_added_or_lost() {
    let watch = Watch::new();
    let (token, local) = (watch.secret("token"), watch.secret("local token"));
    let ca = Ca::new();
    let upstream = echo(&ca);
    let proxy = Proxy::start(Simple::token(token.expose()), &upstream, &ca).await;
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
async fn a_request_for_another_server_is_misdirected_in_whatever_form_it_comes() {
    let ca = Ca::new();
    let upstream = echo(&ca);
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
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
async fn a_request_with_two_lengths_never_becomes_two_requests() {
    let ca = Ca::new();
    let upstream = echo(&ca);
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
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
async fn a_request_whose_length_could_be_read_otherwise_is_refused_and_nothing_of_it_goes_out() {
    let ca = Ca::new();
    let upstream = echo(&ca);
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
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

/// Whoever acts for a member of many groups says so in as many headers, and API servers have as many warnings.
#[tokio::test]
async fn headers_are_limited_by_their_size_and_not_by_a_small_number() {
    let ca = Ca::new();
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
        let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
        // The API server of this test takes no more than a hundred by HTTP/1.1.
        let groups = if alpn == "h2" { many } else { 50 };
        let lines: String = (0..groups).map(|at| format!("Impersonate-Group: g{at}\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", proxy.authority);
        let answer = proxy.raw(format!("{head}{lines}\r\n")).await;
        assert!(answer.ends_with(&format!("{groups} groups")), "{alpn}: {answer}");
        assert_eq!(answer.matches("\r\nwarning: ").count(), many, "{alpn}");
    }
}

#[tokio::test]
async fn a_protocol_that_nobody_asked_for_is_an_error_of_the_api_servers() {
    let ca = Ca::new();
    let setup = Upstream::setup(&ca).alpn(["http/1.1"]).answering(|_| {
        let nothing = Full::from("").boxed_unsync();
        ControlFlow::Break(Box::pin(async { Response::builder().status(101).body(nothing).unwrap() }))
    });
    let upstream = setup.start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    let response = proxy.send(proxy.get("/version")).await;
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()["exec-proxy-error"], "broken");
}

#[tokio::test]
async fn trailers_go_both_ways_over_http2_and_http1() {
    for alpn in ["h2", "http/1.1"] {
        let ca = Ca::new();
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
        let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
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

/// These frames, and no word about how many.
struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

#[tokio::test]
async fn a_client_that_waits_for_100_is_told_to_go_on_and_the_api_server_is_not_asked() {
    let ca = Ca::new();
    let upstream = echo(&ca);
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
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
async fn a_body_that_is_to_be_signed_is_hashed_up_to_the_limit() {
    let ca = Ca::new();
    let upstream = echo(&ca);
    let post = |proxy: &Proxy, body: &'static str, announced: bool| {
        let unannounced = Frames([Frame::data(Bytes::from_static(body.as_bytes()))].into());
        let body = if announced { whole(body) } else { unannounced.boxed_unsync() };
        Request::post("/stream").header("host", &proxy.authority).body(body).unwrap()
    };
    let hash_of_four = "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589";
    let signer = Simple { rule: Some(BodyRule::Hash { max: 4 }), ..Simple::nothing() };
    let proxy = Proxy::start(signer, &upstream, &ca).await;
    for announced in [true, false] {
        assert_eq!(text(proxy.send(post(&proxy, "abcd", announced)).await).await, "abcd");
        assert_eq!(upstream.last_request().header("x-digest"), Some(hash_of_four));
        let refused = proxy.send(post(&proxy, "abcde", announced)).await;
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(refused.headers()["exec-proxy-error"], "too-large");
    }
    assert_eq!(upstream.counts().requests, 2);

    let signer = Simple { rule: Some(BodyRule::HashUpTo { max: 4 }), ..Simple::nothing() };
    let proxy = Proxy::start(signer, &upstream, &ca).await;
    for announced in [true, false] {
        assert_eq!(text(proxy.send(post(&proxy, "abcd", announced)).await).await, "abcd");
        assert_eq!(upstream.last_request().header("x-digest"), Some(hash_of_four));
        assert_eq!(text(proxy.send(post(&proxy, "abcde", announced)).await).await, "abcde");
        assert_eq!(upstream.last_request().header("x-digest"), Some("unknown"));
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told_as_a_status_that_is_not_the_api_servers() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let ca = Ca::new();
    let upstream = echo(&ca);
    let proxy = Proxy::start(Simple::token(token.expose()), &upstream, &ca).await;
    // Its own word goes through, whatever it is.
    for code in [307, 401, 403, 404, 429, 500, 503] {
        upstream.next(1, Order::Status(code));
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
async fn an_answer_that_breaks_off_breaks_off_for_the_client_too_after_what_came_of_it() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).alpn(["http/1.1"]).start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    upstream.next(1, Order::CutMidBody);
    let answer = proxy.raw(format!("GET /version HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.authority)).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer:?}"));
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-length: 32768"), "{head}");
    assert!(!body.is_empty() && body.len() < 32768);
    assert_eq!(upstream.counts().requests, 1);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let ca = Ca::new();
    let upstream = echo(&ca);
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    let request = |size| {
        let mut request = proxy.get("/version");
        request.headers_mut().insert("x-large", HeaderValue::from_str(&"x".repeat(size)).unwrap());
        request
    };
    assert_eq!(proxy.send(request(8 << 10)).await.status(), StatusCode::OK);
    assert_eq!(proxy.send(request(80 << 10)).await.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test]
async fn an_early_answer_arrives_although_the_body_was_not_read() {
    let ca = Ca::new();
    let setup = Upstream::setup(&ca).answering(|_| {
        let full = Full::from("too much").boxed_unsync();
        ControlFlow::Break(Box::pin(async { Response::builder().status(413).body(full).unwrap() }))
    });
    let upstream = setup.start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    let request = Request::builder().method(Method::PUT).uri("/x").header("host", &proxy.authority);
    let response = within(proxy.send(request.body(Zeros(4 * MIB).boxed_unsync()).unwrap())).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
