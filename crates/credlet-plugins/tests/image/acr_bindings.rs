use std::ops::ControlFlow::Break;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use credlet_plugins::web::escaped;
use credlet_testkit::ca::Ca;
use credlet_testkit::server::Server;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;

use crate::acr::{HOST, Node};

const NAME: &str = "ib.example";

/// The API server under its other name, which grants the token that the node's registry takes, and what it was sent.
fn api_server(ca: &Ca, node: &Node) -> (Server, Arc<Mutex<Vec<String>>>) {
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let (granted, record) = (node.token.clone(), Arc::clone(&sent));
    let server = Server::setup(ca).identity(ca.server().for_host(NAME).issue()).answering(move |request| {
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

/// A node at the time of the certificates, whose proxy would lead nowhere.
fn node() -> Node {
    let mut node = Node::with_end(&json!(9_000_000_000_i64));
    node.stage.real_time();
    node.stage.set("HTTPS_PROXY", "http://127.0.0.1:1");
    node
}

#[test]
fn the_api_server_vouches_for_a_service_account() {
    let (ca, mut node) = (Ca::new(), node());
    let (server, sent) = api_server(&ca, &node);
    let file = node.stage.file("ca.crt", ca.pem());
    let line = format!("--ib-sni-name {NAME} --ib-apiserver-ip {} --ib-ca-file {}", server.address(), file.display());
    let defaults = format!("{line} --ib-default-client-id usual --ib-default-tenant-id usual-tenant");
    let token = node.stage.account([]);
    assert!(node.ask_with(&defaults, HOST).auth()[1].ends_with(&node.password));
    let sent = sent.lock().unwrap()[0].clone();
    assert!(sent.starts_with("POST / grant_type=client_credentials&"), "{sent}");
    assert!(sent.contains(&format!("&client_assertion={}&client_id=usual", *escaped(token.expose()))), "{sent}");
    assert_eq!(node.azure.seen().last().unwrap().field("tenant"), "usual-tenant");
    // Without defaults the annotations are needed, and the node's own identity is not used instead.
    assert!(node.ask_with(&line, HOST).refusal().contains("kubernetes.azure.com/acr-client-id"));
    node.stage.token = None;
    assert!(
        node.ask_with(&defaults, HOST).refusal().contains("a token of the service account in the request is missing")
    );
    assert!(!node.paths().iter().any(|path| path.starts_with("/metadata/")));
}

#[test]
fn another_server_gets_no_token() {
    let (ca, mut node) = (Ca::new(), node());
    let (server, sent) = api_server(&ca, &node);
    node.stage.account([]);
    let line = |name: &str, file: &str| {
        format!(
            "--ib-sni-name {name} --ib-apiserver-ip {} --ib-ca-file {file} --ib-default-client-id c --ib-default-tenant-id t",
            server.address()
        )
    };
    let file = node.stage.file("ca.crt", ca.pem());
    let run = node.ask_with(&line("other.example", file.to_str().unwrap()), HOST);
    assert!(run.refusal().contains("a token of the service account's identity binding cannot be had"), "{run:?}");
    let file = node.stage.file("other.crt", Ca::new().pem());
    node.ask_with(&line(NAME, file.to_str().unwrap()), HOST).refusal();
    node.ask_with(&line(NAME, "/nowhere/ca.crt"), HOST).refusal();
    assert!(sent.lock().unwrap().is_empty());
}

#[test]
fn what_cannot_be_on_the_command_line_is_said() {
    let node = node();
    for (line, reason) in [
        ("--ib-sni-name x", "--ib-apiserver-ip"),
        ("--ib-apiserver-ip 10.0.0.1", "--ib-sni-name"),
        ("--ib-default-client-id c", "--ib-sni-name"),
        ("--ib-sni-name https://x --ib-apiserver-ip 10.0.0.1", "it is the name of a host"),
        ("--ib-sni-name x --ib-apiserver-ip http://10.0.0.1", "it is no address"),
    ] {
        let run = node.ask_with(line, HOST);
        assert!(run.stdout.is_empty() && run.stderr.contains(reason), "{run:?}");
    }
}
