use std::ops::ControlFlow::Break;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use credlet_http::fetch::percent_encode;
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::FakeApiServer;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;

use super::acr::{AcrNode, HOST};

const NAME: &str = "ib.example";

/// Starts the API server under its SNI name. Returns it and the requests that it receives.
fn api_server(ca: &TestCa, node: &AcrNode) -> (FakeApiServer, Arc<Mutex<Vec<String>>>) {
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let (granted, record) = (node.token.clone(), Arc::clone(&sent));
    let server = FakeApiServer::setup(ca).identity(ca.server().for_host(NAME).issue()).answering(move |request| {
        let (granted, record) = (granted.clone(), Arc::clone(&record));
        Break(Box::pin(async move {
            let line = format!("{} {}", request.method(), request.uri().path());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            record.lock().unwrap().push(format!("{line} {}", String::from_utf8_lossy(&body)));
            let answer = json!({"access_token": granted, "expires_in": 600}).to_string();
            Response::new(Full::new(Bytes::from(answer)).boxed_unsync())
        }))
    });
    (server.start_in_thread(), sent)
}

/// A node with the system clock, for the certificates, and an unusable proxy.
fn node() -> AcrNode {
    let mut node = AcrNode::with_end(&json!(9_000_000_000_i64));
    node.sandbox.use_system_clock();
    node.sandbox.set("HTTPS_PROXY", "http://127.0.0.1:1");
    node
}

#[test]
fn identity_binding_token_from_api_server() {
    let (ca, mut node) = (TestCa::new(), node());
    let (server, sent) = api_server(&ca, &node);
    let file = node.sandbox.file("ca.crt", ca.pem());
    let line = format!("--ib-sni-name {NAME} --ib-apiserver-ip {} --ib-ca-file {}", server.address(), file.display());
    let defaults = format!("{line} --ib-default-client-id usual --ib-default-tenant-id usual-tenant");
    let token = node.sandbox.set_account([]);
    assert!(node.run_with(&defaults, HOST).auth()[1].ends_with(&node.password));
    let sent = sent.lock().unwrap()[0].clone();
    assert!(sent.starts_with("POST / grant_type=client_credentials&"), "{sent}");
    assert!(sent.contains(&format!("&client_assertion={}&client_id=usual", *percent_encode(token.expose()))), "{sent}");
    assert_eq!(node.azure.seen().last().unwrap().field("tenant"), "usual-tenant");
    // Without defaults the annotations are required; there is no fallback to the node's identity.
    assert!(node.run_with(&line, HOST).error().contains("kubernetes.azure.com/acr-client-id"));
    node.sandbox.token = None;
    assert!(node.run_with(&defaults, HOST).error().contains("missing service account token in the request"));
    assert!(!node.paths().iter().any(|path| path.starts_with("/metadata/")));
}

#[test]
fn other_server_gets_no_token() {
    let (ca, mut node) = (TestCa::new(), node());
    let (server, sent) = api_server(&ca, &node);
    node.sandbox.set_account([]);
    let line = |name: &str, file: &str| {
        format!(
            "--ib-sni-name {name} --ib-apiserver-ip {} --ib-ca-file {file} --ib-default-client-id c --ib-default-tenant-id t",
            server.address()
        )
    };
    let file = node.sandbox.file("ca.crt", ca.pem());
    let run = node.run_with(&line("other.example", file.to_str().unwrap()), HOST);
    assert!(run.error().contains("failed to fetch identity binding token"), "{run:?}");
    let file = node.sandbox.file("other.crt", TestCa::new().pem());
    node.run_with(&line(NAME, file.to_str().unwrap()), HOST).error();
    node.run_with(&line(NAME, "/nowhere/ca.crt"), HOST).error();
    assert!(sent.lock().unwrap().is_empty());
}

#[test]
fn rejects_invalid_flags() {
    let node = node();
    for (line, reason) in [
        ("--ib-sni-name x", "--ib-apiserver-ip"),
        ("--ib-apiserver-ip 10.0.0.1", "--ib-sni-name"),
        ("--ib-default-client-id c", "--ib-sni-name"),
        ("--ib-sni-name https://x --ib-apiserver-ip 10.0.0.1", "must be a host name"),
        ("--ib-sni-name x --ib-apiserver-ip http://10.0.0.1", "must be an address or a host name"),
    ] {
        let run = node.run_with(line, HOST);
        assert!(run.stdout.is_empty() && run.stderr.contains(reason), "{run:?}");
    }
}
