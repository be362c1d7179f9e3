//! The examples, run while their credentials expire, rotate and are revoked.

use std::pin::pin;
use std::time::Duration;

use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::ClientCertificates;
use futures::TryStreamExt as _;
use kube::ResourceExt as _;

use crate::{TestCluster, within};

#[path = "../../examples/controller.rs"]
#[expect(dead_code, reason = "its main is for the terminal")]
mod controller;
#[path = "../../examples/list.rs"]
#[expect(dead_code, reason = "its main is for the terminal")]
mod list;
#[path = "../../examples/watcher.rs"]
#[expect(dead_code, reason = "its main is for the terminal")]
mod watcher;

const HOUR: Duration = Duration::from_secs(3600);

/// A cluster that wants certificates too, and a plugin that gives another token with each run and, with the second,
/// another certificate. The first answer is good for an hour.
fn rotating(watch: &LeakCheck) -> (TestCluster, TestPlugin, [String; 3]) {
    let cluster = TestCluster::with(ClientCertificates::Required);
    let tokens = ["first", "second", "third"].map(|label| watch.secret(label).expose().to_owned());
    tokens.iter().for_each(|token| cluster.server.accept_token(token));
    let (one, two) = (cluster.identity("one", watch), cluster.identity("two", watch));
    let plugin = TestPlugin::answering(&tokens[0])
        .certificate(one.cert_pem(), one.key_pem())
        .expiring_in(HOUR)
        .on_the_next_run()
        .answers(&tokens[1])
        .certificate(two.cert_pem(), two.key_pem())
        .on_the_next_run()
        .answers(&tokens[2])
        .certificate(two.cert_pem(), two.key_pem());
    (cluster, plugin, tokens)
}

#[tokio::test]
async fn list_example_runs_plugin_once() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let cluster = TestCluster::start();
    cluster.server.accept_token(token.expose());
    cluster.store.apply("one");
    cluster.store.apply("two");
    let plugin = TestPlugin::answering(token.expose());

    let client = cluster.client(&plugin);
    assert_eq!((plugin.runs(), cluster.server.counts().connections), (0, 0));
    for _ in 0..3 {
        assert_eq!(within(list::names(client.clone())).await.unwrap(), ["one", "two"]);
    }
    assert_eq!((plugin.runs(), cluster.server.counts().connections), (1, 1));
    assert_eq!(cluster.server.last_request().alpn.as_deref(), Some("h2"));
}

#[tokio::test]
async fn watcher_example_loses_no_event() {
    let watch = LeakCheck::new();
    let (cluster, plugin, tokens) = rotating(&watch);
    let client = cluster.client(&plugin);
    let mut changes = pin!(watcher::changes(client.clone()));
    let mut next = async || within(changes.try_next()).await.unwrap().unwrap().name_any();
    let sent_with = || {
        let last = cluster.server.last_request();
        (last.bearer().unwrap().to_owned(), last.common_name().unwrap().to_owned())
    };

    cluster.store.apply("listed");
    assert_eq!(next().await, "listed");
    cluster.store.apply("watched");
    assert_eq!(next().await, "watched");
    assert_eq!(sent_with(), (tokens[0].clone(), "one".to_owned()));

    // The token expires, and with the next one comes another certificate. The watch was let in with the old one and
    // goes on over the old connection.
    cluster.clock.advance(2 * HOUR);
    cluster.server.revoke_token(&tokens[0]);
    within(client.apiserver_version()).await.unwrap();
    assert_eq!(sent_with(), (tokens[1].clone(), "two".to_owned()));
    cluster.store.apply("over the old connection");
    assert_eq!(next().await, "over the old connection");
    assert_eq!(cluster.paths("watch=true").len(), 1);

    // It ends, as watches do, and the next one comes with the new pair. Nothing is missed in between.
    cluster.store.end_watches();
    cluster.store.apply("between two watches");
    assert_eq!(next().await, "between two watches");
    assert_eq!(sent_with(), (tokens[1].clone(), "two".to_owned()));

    // The server changes its mind about the token.
    cluster.server.revoke_token(&tokens[1]);
    cluster.store.end_watches();
    cluster.store.apply("after the revocation");
    assert_eq!(next().await, "after the revocation");
    assert_eq!(sent_with(), (tokens[2].clone(), "two".to_owned()));

    assert_eq!(plugin.runs(), 3);
    let lists = cluster.paths("configmaps").len() - cluster.paths("watch=true").len();
    assert_eq!(lists, 1, "an event was nearly lost: the watcher began anew");
}

#[tokio::test]
async fn controller_example_survives_revocation() {
    let watch = LeakCheck::new();
    let (cluster, plugin, tokens) = rotating(&watch);
    let controller = tokio::spawn(controller::run(cluster.client(&plugin)));

    cluster.store.apply("first");
    within(cluster.store.annotated("first", controller::KEYS)).await;
    cluster.clock.advance(2 * HOUR);
    cluster.server.revoke_token(&tokens[0]);
    cluster.store.apply("second");
    within(cluster.store.annotated("second", controller::KEYS)).await;
    cluster.server.revoke_token(&tokens[1]);
    cluster.store.end_watches();
    cluster.store.apply("third");
    within(cluster.store.annotated("third", controller::KEYS)).await;

    assert_eq!(plugin.runs(), 3);
    let patches = cluster.server.requests().into_iter().filter(|seen| seen.method == "PATCH");
    let tokens_used: Vec<_> = patches.map(|seen| seen.bearer().unwrap().to_owned()).collect();
    assert!(tokens_used.ends_with(&tokens[2..]), "the last note was made with another token");
    controller.abort();
}
