//! What seed 000 asks of informers when their credentials fail them.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::Fault;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};

use crate::{TestCluster, exec_user, within};

/// Without the back-off every informer should have.
fn impatient(client: Client) -> impl futures::Stream<Item = Result<ConfigMap, watcher::Error>> {
    watcher(Api::<ConfigMap>::default_namespaced(client), watcher::Config::default()).applied_objects()
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let errors = std::iter::successors(Some(error), |error| (*error).source());
    errors.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn informer_backs_off_and_recovers() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let cluster = TestCluster::start();
    cluster.server.accept_token(token.expose());
    cluster.store.apply("found");
    let plugin = TestPlugin::failing(1, "the identity provider is down").on_the_next_run().answers(token.expose());
    let mut changes = pin!(impatient(cluster.client(&plugin)));

    for _ in 0..100 {
        let error = within(changes.next()).await.unwrap().unwrap_err();
        watch.error(&error);
        let text = chain(&error);
        assert!(text.contains("exited with code 1: the identity provider is down"), "{text}");
    }
    assert_eq!((plugin.runs(), cluster.server.counts().requests), (1, 0));

    cluster.clock.advance(Duration::from_secs(2));
    assert_eq!(within(changes.try_next()).await.unwrap().unwrap().name_any(), "found");
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn interactive_plugin_fails_without_terminal() {
    let watch = LeakCheck::new();
    let cluster = TestCluster::start();
    let plugin = TestPlugin::answering(watch.secret("token").expose());
    let mut options = cluster.options(cluster.resolve(&exec_user(&plugin, "Always")));
    options.client.exec.stdin_unavailable = Some("a controller has nobody to ask".to_owned());
    let mut changes = pin!(impatient(credlet_kube::client(options).unwrap()));

    for _ in 0..3 {
        let text = chain(&within(changes.next()).await.unwrap().unwrap_err());
        assert!(text.contains("requires an interactive terminal"), "{text}");
    }
    assert_eq!((plugin.runs(), cluster.server.counts().requests), (0, 0));
}

#[tokio::test]
async fn retries_server_errors_without_plugin_runs() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let cluster = TestCluster::start();
    cluster.server.accept_token(token.expose());
    cluster.store.apply("listed");
    let plugin = TestPlugin::answering(token.expose());
    let mut changes = pin!(impatient(cluster.client(&plugin)));
    let mut next = async || within(changes.next()).await.unwrap();

    // kube's own layer waits and asks again after a 503; a 500 is for the informer to see.
    cluster.server.inject(2, Fault::Status(503));
    cluster.server.inject(1, Fault::Status(500));
    assert!(next().await.is_err());
    assert_eq!(next().await.unwrap().name_any(), "listed");
    cluster.store.apply("watched");
    assert_eq!(next().await.unwrap().name_any(), "watched");

    // The watch breaks in the middle, and so does the first attempt at another.
    cluster.server.inject(1, Fault::Cut);
    cluster.server.reset_connections();
    assert!(next().await.is_err());
    cluster.store.apply("after the break");
    assert!(next().await.is_err());
    assert_eq!(next().await.unwrap().name_any(), "after the break");
    assert_eq!(plugin.runs(), 1);
}
