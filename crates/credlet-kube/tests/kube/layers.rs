//! kube's other layers are where they were.

use std::error::Error as _;
use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use credlet_kube::ReadTimeoutError;
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::{FakeApiServer, Fault};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Config;
use kube::client::Body;
use tower::limit::ConcurrencyLimitLayer;

use crate::{TestCluster, exec_user, within};

/// `/version` in gzip.
const COMPRESSED: &str = "H4sIAAAAAAAC/6tWSs8sCUstKs7Mz1OyUioz1DM21zPQTc7PLShKLS5OTVGqBQDOyQy1IwAAAA==";

fn compressing(ca: &TestCa) -> FakeApiServer {
    FakeApiServer::setup(ca)
        .answering(|request| {
            if request.headers().get("accept-encoding").is_none_or(|accepted| accepted != "gzip") {
                return Continue(request);
            }
            let body = base64::engine::general_purpose::STANDARD.decode(COMPRESSED).unwrap();
            let body = Full::new(Bytes::from(body)).boxed_unsync();
            let response = Response::builder().header("content-encoding", "gzip").body(body).unwrap();
            Break(Box::pin(async { response }))
        })
        .start()
}

#[tokio::test]
async fn decompresses_gzip_unless_disabled() {
    let ca = TestCa::new();
    let server = compressing(&ca);
    let (compressed, plain) = ("v1.37.0-compressed", "v1.34.0");
    let usual = if cfg!(feature = "gzip") { compressed } else { plain };
    for (disable, version) in [(false, usual), (true, plain)] {
        let mut config = Config::new(server.url().parse().unwrap());
        config.root_cert = Some(vec![ca.der().to_vec()]);
        config.disable_compression = disable;
        let client = credlet_kube::client(config).unwrap();
        let text = within(client.request_text(Request::get("/version").body(Vec::new()).unwrap())).await.unwrap();
        assert!(text.contains(version), "{text}");
    }
}

#[tokio::test]
async fn accepts_more_layers_and_keeps_authorization() {
    let watch = LeakCheck::new();
    let (own, token) = (watch.secret("own"), watch.secret("token"));
    let cluster = TestCluster::start();
    cluster.server.accept_token(own.expose());
    let plugin = TestPlugin::answering(token.expose());
    let mut options = cluster.options(cluster.resolve(&exec_user(&plugin, "Never")));
    options.headers = vec![("authorization".parse().unwrap(), format!("Bearer {}", own.expose()).parse().unwrap())];
    watch.text(format!("{options:?}"));
    let client = credlet_kube::builder(options).unwrap().with_layer(&ConcurrencyLimitLayer::new(1)).build();
    within(client.apiserver_version()).await.unwrap();
    assert_eq!(plugin.runs(), 0);
    let agent = cluster.server.last_request().header("user-agent").unwrap().to_owned();
    assert!(agent.starts_with("credlet-kube/"), "{agent}");
}

#[tokio::test]
async fn retries_busy_server_if_enabled() {
    let cluster = TestCluster::start();
    for (retry, requests) in [(true, 3), (false, 4)] {
        cluster.server.inject(if retry { 2 } else { 1 }, Fault::Status(429));
        let mut options = cluster.options(cluster.resolve("{}"));
        options.retry = retry;
        let answer = within(credlet_kube::client(options).unwrap().apiserver_version()).await;
        assert_eq!((answer.is_ok(), cluster.server.counts().requests), (retry, requests));
    }
}

#[tokio::test]
async fn read_timeout_covers_head_and_body() {
    let cluster = TestCluster::start();
    let mut options = cluster.options(cluster.resolve("{}"));
    options.read_timeout = Some(Duration::from_millis(300));
    let client = credlet_kube::client(options).unwrap();

    cluster.server.inject(1, Fault::Stall);
    let kube::Error::Service(error) = within(client.apiserver_version()).await.unwrap_err() else { panic!() };
    assert!(error.is::<ReadTimeoutError>(), "{error}");

    // A watch on nothing, and nothing happens. The head of the answer may come late on a busy machine.
    let request = || Request::get("/api/v1/namespaces/default/configmaps?watch=true").body(Body::empty()).unwrap();
    let silent = async {
        loop {
            if let Ok(response) = client.send(request()).await {
                return response.into_body().collect_bytes().await.unwrap_err();
            }
        }
    };
    let error = within(silent).await;
    assert_eq!(
        error.source().map(ToString::to_string),
        Some("timed out reading the response after 0.3 seconds".to_owned())
    );
}

#[tokio::test]
async fn read_timeout_excludes_plugin_run() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let cluster = TestCluster::start();
    let limit = Duration::from_secs(2);
    let plugin = TestPlugin::new().sleeps(limit + limit / 4).answers(token.expose());
    let mut options = cluster.options(cluster.resolve(&exec_user(&plugin, "Never")));
    options.read_timeout = Some(limit);
    within(credlet_kube::client(options).unwrap().apiserver_version()).await.unwrap();
}

#[tokio::test]
async fn span_has_url_and_status() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let cluster = TestCluster::start();
    cluster.server.accept_token(token.expose());
    let plugin = TestPlugin::answering(token.expose());
    within(cluster.client(&plugin).apiserver_version()).await.unwrap();
    let address = format!("{}/version", cluster.server.url());
    let lines = watch.lines();
    assert!(lines.iter().any(|line| line.contains("http.url") && line.contains(&address)), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("http.status_code") && line.contains("200")), "{lines:#?}");
}
