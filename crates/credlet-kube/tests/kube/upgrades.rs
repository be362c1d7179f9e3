//! `exec`, `attach` and `port-forward` leave HTTP for a WebSocket.

use bytes::Bytes;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::ResponseBody;
use futures::SinkExt as _;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::AttachParams;
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::{TestCluster, within};

/// The server's side: a program that says hello and ends well.
pub(crate) async fn hello(mut request: Request<Incoming>) -> Response<ResponseBody> {
    let key = derive_accept_key(request.headers()[header::SEC_WEBSOCKET_KEY].as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let stream = TokioIo::new(upgrade.await.unwrap());
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        socket.send(Message::Binary(Bytes::from_static(b"\x01hello"))).await.unwrap();
        socket.send(Message::Binary(Bytes::from_static(b"\x03{\"status\":\"Success\"}"))).await.unwrap();
        // The client may be gone already.
        let _ = socket.close(None).await;
    });
    Response::builder()
        .status(101)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, key)
        .header(header::SEC_WEBSOCKET_PROTOCOL, "v5.channel.k8s.io")
        .body(Empty::new().boxed_unsync())
        .unwrap()
}

#[tokio::test]
async fn pod_exec_retries_rejected_token() {
    let watch = LeakCheck::new();
    let tokens = [watch.secret("refused"), watch.secret("accepted")];
    let cluster = TestCluster::start();
    cluster.server.accept_token(tokens[1].expose());
    let plugin = TestPlugin::answering(tokens[0].expose()).on_the_next_run().answers(tokens[1].expose());
    let pods = Api::<Pod>::default_namespaced(cluster.client(&plugin));

    let wanted = AttachParams::default().stdout(true).stderr(false);
    let mut process = within(pods.exec("web", ["greet"], &wanted)).await.unwrap();
    let mut said = String::new();
    within(process.stdout().unwrap().read_to_string(&mut said)).await.unwrap();
    let status = within(process.take_status().unwrap()).await.unwrap();

    assert_eq!((said.as_str(), status.status.as_deref()), ("hello", Some("Success")));
    assert_eq!(plugin.runs(), 2);
    let last = cluster.server.last_request();
    assert_eq!((last.alpn.as_deref(), last.bearer()), (Some("http/1.1"), Some(tokens[1].expose())));
}
