//! Building clients: from where, and at what price.

use std::panic::catch_unwind;
use std::sync::Arc;

use credlet_client::Authenticators;
use credlet_client::kubeconfig::Overrides;
use credlet_core::{FixedEnv, World};
use credlet_kube::Options;
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;

use crate::{Cluster, exec_user, within};

/// Programs of this environment, in their own process so to speak.
fn in_env(vars: &[(&str, &str)]) -> Arc<Authenticators> {
    Arc::new(Authenticators::new(World { env: Arc::new(FixedEnv::new(vars.iter().copied())), ..World::system() }))
}

#[tokio::test]
async fn the_kubeconfig_is_found_as_kubectl_finds_it_and_a_context_can_be_chosen() {
    let watch = Watch::new();
    let (token, other) = (watch.secret("token"), watch.secret("other"));
    let cluster = Cluster::start();
    cluster.server.accept_token(other.expose());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    let more = format!(
        "- {{name: second, user: {{token: {}}}}}\ncontexts:\n- {{name: c, context: {{cluster: c, user: first}}}}\n\
         - {{name: d, context: {{cluster: c, user: second, namespace: blue}}}}\n",
        other.expose(),
    );
    let users = format!("users:\n- {{name: first, user: {{token: {}}}}}\n{more}", token.expose());
    let text: String = cluster.kubeconfig("{}").lines().filter(|line| line.starts_with("cl")).collect();
    std::fs::write(&file, format!("current-context: c\n{text}\n{users}")).unwrap();
    let env = in_env(&[("KUBECONFIG", &format!("/no/such/file:{}", file.display()))]);

    let mut overrides = Overrides::default();
    let first = credlet_kube::client(Options::infer().sharing(Arc::clone(&env))).unwrap();
    overrides.context = Some("d".to_owned());
    let second = credlet_kube::client(Options::overriding(overrides).sharing(env)).unwrap();

    assert_eq!((first.default_namespace(), second.default_namespace()), ("default", "blue"));
    assert!(within(first.apiserver_version()).await.is_err());
    within(second.apiserver_version()).await.unwrap();
}

#[tokio::test]
async fn a_broken_kubeconfig_is_an_error_and_never_answered_with_the_pods_identity() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    std::fs::write(&file, "current-context: gone").unwrap();
    let host = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "6443")];
    let path = file.display().to_string();
    let error = credlet_kube::client(Options::infer().sharing(in_env(&[("KUBECONFIG", &path), host[0], host[1]])));
    let error = error.err().unwrap().to_string();
    assert!(error.contains("there is no context \"gone\""), "{error}");
}

#[tokio::test]
async fn ten_clients_of_one_configuration_run_the_plugin_once_together() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let cluster = Cluster::start();
    cluster.server.accept_token(token.expose());
    let plugin = Plugin::answering(token.expose());
    let clients: Vec<_> = (0..10).map(|_| cluster.client(&plugin)).collect();
    assert_eq!(plugin.runs(), 0);

    let all = clients.into_iter().map(|client| tokio::spawn(async move { client.apiserver_version().await }));
    for answer in all.collect::<Vec<_>>() {
        within(answer).await.unwrap().unwrap();
    }
    assert_eq!((plugin.runs(), cluster.server.counts().requests), (1, 10));
}

#[tokio::test]
async fn sixty_four_requests_with_a_revoked_token_all_succeed_after_one_more_run() {
    let watch = Watch::new();
    let tokens = [watch.secret("revoked"), watch.secret("new")];
    let cluster = Cluster::start();
    tokens.iter().for_each(|token| cluster.server.accept_token(token.expose()));
    let plugin = Plugin::answering(tokens[0].expose()).on_the_next_run().answers(tokens[1].expose());
    let client = cluster.client(&plugin);
    within(client.apiserver_version()).await.unwrap();
    cluster.server.revoke_token(tokens[0].expose());

    let send = || {
        tokio::spawn({
            let client = client.clone();
            async move { client.apiserver_version().await }
        })
    };
    for answer in (0..64).map(|_| send()).collect::<Vec<_>>() {
        within(answer).await.unwrap().unwrap();
    }
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn with_two_crypto_providers_in_the_tree_nothing_panics_and_none_is_installed() {
    // kube's default features bring the other one, and so the TLS library has no opinion.
    assert!(catch_unwind(rustls::ClientConfig::builder).is_err());
    let watch = Watch::new();
    let token = watch.secret("token");
    let cluster = Cluster::start();
    cluster.server.accept_token(token.expose());
    let plugin = Plugin::answering(token.expose());
    within(cluster.client(&plugin).apiserver_version()).await.unwrap();
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

#[tokio::test]
async fn the_plugins_failure_comes_through_kube_without_its_secrets() {
    let watch = Watch::new();
    let secret = watch.secret("on stdout");
    let cluster = Cluster::start();
    let plugin = Plugin::new().prints(format!("{{\"token\": \"{}\"", secret.expose())).exits(3);
    let client = credlet_kube::client(cluster.options(cluster.resolve(&exec_user(&plugin, "Never")))).unwrap();
    let error = within(client.apiserver_version()).await.unwrap_err();
    watch.error(&error);
    let kube::Error::Service(error) = error else { panic!("{error}") };
    assert!(error.to_string().contains("exited with code 3"), "{error}");
}
