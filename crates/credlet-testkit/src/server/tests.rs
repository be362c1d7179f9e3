//! The endpoints. `credlet-apiserver` tests the server itself.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::*;

async fn connect(server: &FakeApiServer, ca: &TestCa) -> SendRequest<Full<Bytes>> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.der()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(server.address()).await.unwrap();
    let tls = TlsConnector::from(Arc::new(config)).connect("127.0.0.1".try_into().unwrap(), tcp).await.unwrap();
    let (sender, connection) = handshake(TokioIo::new(tls)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn get(connection: &mut SendRequest<Full<Bytes>>, path: &str) -> Response<Incoming> {
    connection.send_request(Request::get(path).body(Full::default()).unwrap()).await.unwrap()
}

async fn json(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[tokio::test]
async fn echo_returns_recorded_request() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let mut connection = connect(&server, &ca).await;
    let request = Request::post("/echo?a=b").header("authorization", "Bearer t").body("hello".into()).unwrap();
    let echo = json(connection.send_request(request).await.unwrap()).await;
    assert_eq!(echo["body"], "hello");
    let seen: RecordedRequest = serde_json::from_value(echo).unwrap();
    assert_eq!((seen.path.as_str(), seen.bearer()), ("/echo?a=b", Some("t")));
    assert_eq!(server.last_request(), seen);
}

#[tokio::test]
async fn endpoints_respond_like_api_server() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let mut connection = connect(&server, &ca).await;
    assert_eq!(json(get(&mut connection, "/version").await).await["major"], "1");
    let namespaces = json(get(&mut connection, "/api/v1/namespaces").await).await;
    assert_eq!(namespaces["items"][0]["metadata"]["name"], "default");
    let missing = get(&mut connection, "/nowhere").await;
    assert_eq!(missing.status(), 404);
    assert_eq!(json(missing).await["reason"], "NotFound");
}

#[tokio::test]
async fn review_returns_user() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let mut connection = connect(&server, &ca).await;
    server.accept_token_as("good", "joe");
    for (token, expected) in [("good", 201), ("bad", 401)] {
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("authorization", format!("Bearer {token}"))
            .body(Full::default())
            .unwrap();
        let response = connection.send_request(request).await.unwrap();
        assert_eq!(response.status(), expected);
        let user = json(response).await["status"]["userInfo"].clone();
        assert_eq!(user, if expected == 201 { serde_json::json!({ "username": "joe" }) } else { Value::Null });
    }
}

#[tokio::test]
async fn watch_streams_events() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let mut connection = connect(&server, &ca).await;
    let response = get(&mut connection, "/watch?interval_ms=1&count=3").await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let lines: Vec<Value> =
        body.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["object"]["metadata"]["resourceVersion"], "3");
    // Without a count the stream is endless; the first line is sent at once.
    let mut endless = get(&mut connection, "/watch?interval_ms=3600000").await.into_body();
    assert!(endless.frame().await.unwrap().unwrap().is_data());
    assert!(timeout(Duration::from_millis(50), endless.frame()).await.is_err());
}

#[test]
#[should_panic(expected = "the server panicked")]
fn panic_in_endpoint_fails_test() {
    let ca = TestCa::new();
    let panics = |_| panic!("in an endpoint");
    let server = FakeApiServer::setup(&ca).answering(panics).start_in_thread();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let request = Request::get("/").body(Full::default()).unwrap();
        connect(&server, &ca).await.send_request(request).await.unwrap_err();
    });
}
