//! Policies apply to every listener.

use std::sync::Arc;

use credlet_exec::{Clock as _, SystemClock};
use credlet_proxy::policy::Policy;
use credlet_proxy::server::{BridgeMode, LoopbackOptions, ProxyCa, SocketProtocol};
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::FakeApiServer as Upstream;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;

use crate::socket_tls::client;
use crate::support::{FakeSigner, TestProxy, cluster, empty, text, within};

fn read_only() -> Policy {
    let mut policy = Policy::new("the operator");
    policy.read_only = true;
    policy
}

const EXEC: &str = "/api/v1/namespaces/shop/pods/web/exec?command=id";

#[tokio::test]
async fn forbidden_status_names_the_rule() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start_with(FakeSigner::token("t"), &cluster(&upstream, &ca), |options| {
        options.socket_protocol = SocketProtocol::Plain;
        options.policies.push(read_only());
    })
    .await;
    let absolute = format!("https://{}{EXEC}", proxy.authority);
    let ask =
        |method: Method, target: &str| Request::builder().method(method).uri(target).header("host", &proxy.authority);
    let refused = [
        ask(Method::POST, "/api/v1/namespaces").body(empty()).unwrap(),
        ask(Method::GET, EXEC).body(empty()).unwrap(),
        ask(Method::GET, &absolute).body(empty()).unwrap(),
        ask(Method::GET, "/api/v1/namespaces/shop/pods/web/%65xec").body(empty()).unwrap(),
        ask(Method::GET, EXEC).header("connection", "upgrade").header("upgrade", "websocket").body(empty()).unwrap(),
        ask(Method::POST, EXEC).header("connection", "upgrade").header("upgrade", "SPDY/3.1").body(empty()).unwrap(),
        ask(Method::GET, "/version")
            .header("connection", "upgrade")
            .header("upgrade", "strange")
            .body(empty())
            .unwrap(),
    ];
    let count = refused.len();
    for request in refused {
        let asked = format!("{} {}", request.method(), request.uri());
        let response = within(proxy.send(request)).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{asked}");
        assert_eq!(response.headers()["exec-proxy-error"], "policy", "{asked}");
        let status: serde_json::Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"Forbidden".into()), "{asked}");
        assert!(status["message"].as_str().unwrap().contains("set by the operator"), "{asked}: {status}");
    }
    // A request that no HTTP library would send.
    let raw = proxy
        .raw(format!(
            "GET /api/v1/x/../../api/v1/namespaces HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            proxy.authority
        ))
        .await;
    assert!(raw.starts_with("HTTP/1.1 403") && raw.contains("cannot be checked"), "{raw}");
    assert_eq!(upstream.counts().requests, 0);

    assert_eq!(within(proxy.send(proxy.get("/version"))).await.status(), StatusCode::OK);
    let metrics = proxy.control().metrics().await.unwrap();
    let line = format!("credlet_proxy_policy_refusals_total {}", count + 1);
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
    assert_eq!(proxy.control().status().await.unwrap().policy.as_deref(), Some("--read-only"));
}

#[tokio::test]
async fn policy_applies_to_all_listeners() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let authority = Arc::new(ProxyCa::generate(SystemClock::new().now()).unwrap());
    let loopback = Some(LoopbackOptions { port: 0, mode: BridgeMode::Server, authority: authority.clone() });
    let proxy = TestProxy::start_with(FakeSigner::nothing(), &cluster(&upstream, &ca), |options| {
        options.loopback = loopback;
        options.policies.push(read_only());
    })
    .await;
    let port = proxy.control().lease(None).await.unwrap().status;
    let pinned = proxy.answer.proxy_config.as_ref().unwrap().certificate_authority_data.clone();
    let pinned = String::from_utf8(pinned).unwrap();
    let at_port = format!("https://127.0.0.1:{}", proxy.port.unwrap());
    for http2 in [true, false] {
        let given = |status: &credlet_api::exec::ExecCredentialStatus| {
            (status.client_certificate_data.clone(), status.client_key_data.clone())
        };
        let (cert, key) = given(&port);
        let by_port = client(&at_port, authority.certificate(), Some((&*cert, &key)), None, http2);
        let (cert, key) = given(&proxy.answer);
        let by_socket = client(&upstream.url(), &pinned, Some((&*cert, &key)), Some(proxy.dir.socket()), http2);
        for client in [by_port, by_socket] {
            let ask = |method: Method, target: &'static str| {
                let request = Request::builder().method(method).uri(target);
                client.send(request.body(credlet_http::RequestBody::empty()).unwrap())
            };
            for (method, target) in [(Method::GET, EXEC), (Method::DELETE, "/api/v1/namespaces/shop")] {
                let response = within(ask(method, target)).await.unwrap();
                assert_eq!(response.status(), StatusCode::FORBIDDEN, "{target}");
                let body = within(response.into_body().collect()).await.unwrap().to_bytes();
                assert!(String::from_utf8_lossy(&body).contains("--read-only"));
            }
            assert_eq!(within(ask(Method::GET, "/version")).await.unwrap().status(), StatusCode::OK);
        }
    }
    assert_eq!(upstream.counts().requests, 4);
}
