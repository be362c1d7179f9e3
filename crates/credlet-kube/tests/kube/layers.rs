//! kube's other layers are where they were.

use std::error::Error as _;
use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use credlet_kube::Silent;
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::server::{Order, Server};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Config;
use kube::client::Body;
use tower::limit::ConcurrencyLimitLayer;

use crate::{Cluster, exec_user, within};

/// `/version` in gzip.
const COMPRESSED: &str = "H4sIAAAAAAAC/6tWSs8sCUstKs7Mz1OyUioz1DM21zPQTc7PLShKLS5OTVGqBQDOyQy1IwAAAA==";

fn compressing(ca: &Ca) -> Server {
    Server::setup(ca)
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
async fn answers_come_compressed_unless_the_configuration_says_no() {
    let ca = Ca::new();
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
async fn more_layers_can_be_laid_on_and_the_programs_own_credential_is_left_alone() {
    let watch = Watch::new();
    let (own, token) = (watch.secret("own"), watch.secret("token"));
    let cluster = Cluster::start();
    cluster.server.accept_token(own.expose());
    let plugin = Plugin::answering(token.expose());
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
async fn a_busy_server_is_asked_again_if_the_program_wants_it() {
    let cluster = Cluster::start();
    for (retry, requests) in [(true, 3), (false, 4)] {
        cluster.server.next(if retry { 2 } else { 1 }, Order::Status(429));
        let mut options = cluster.options(cluster.resolve("{}"));
        options.retry = retry;
        let answer = within(credlet_kube::client(options).unwrap().apiserver_version()).await;
        assert_eq!((answer.is_ok(), cluster.server.counts().requests), (retry, requests));
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up_before_its_answer_and_in_the_middle_of_it() {
    let cluster = Cluster::start();
    let mut options = cluster.options(cluster.resolve("{}"));
    options.read_timeout = Some(Duration::from_millis(300));
    let client = credlet_kube::client(options).unwrap();

    cluster.server.next(1, Order::Stall);
    let kube::Error::Service(error) = within(client.apiserver_version()).await.unwrap_err() else { panic!() };
    assert!(error.is::<Silent>(), "{error}");

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
    assert_eq!(error.source().map(ToString::to_string), Some("the server was silent for 0.3 seconds".to_owned()));
}

#[tokio::test]
async fn the_time_a_plugin_takes_is_not_the_servers() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let cluster = Cluster::start();
    let limit = Duration::from_secs(2);
    let plugin = Plugin::new().sleeps(limit + limit / 4).answers(token.expose());
    let mut options = cluster.options(cluster.resolve(&exec_user(&plugin, "Never")));
    options.read_timeout = Some(limit);
    within(credlet_kube::client(options).unwrap().apiserver_version()).await.unwrap();
}

#[tokio::test]
async fn a_request_has_a_span_with_its_whole_address_and_its_outcome() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let cluster = Cluster::start();
    cluster.server.accept_token(token.expose());
    let plugin = Plugin::answering(token.expose());
    within(cluster.client(&plugin).apiserver_version()).await.unwrap();
    let address = format!("{}/version", cluster.server.url());
    let lines = watch.lines();
    assert!(lines.iter().any(|line| line.contains("http.url") && line.contains(&address)), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("http.status_code") && line.contains("200")), "{lines:#?}");
}
