//! Building clients: from where, and at what price.

use std::panic::catch_unwind;
use std::sync::Arc;

use credlet_client::AuthenticatorRegistry;
use credlet_exec::{FixedEnv, Platform};
use credlet_kube::KubeClientOptions;
use credlet_kubeconfig::ConfigOverrides;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;

use crate::{TestCluster, exec_user, within};

/// Programs of this environment, in their own process so to speak.
fn in_env(vars: &[(&str, &str)]) -> Arc<AuthenticatorRegistry> {
    Arc::new(AuthenticatorRegistry::new(Platform {
        env: Arc::new(FixedEnv::new(vars.iter().copied())),
        ..Platform::system()
    }))
}

#[tokio::test]
async fn finds_kubeconfig_and_context_like_kubectl() {
    let watch = LeakCheck::new();
    let (token, other) = (watch.secret("token"), watch.secret("other"));
    let cluster = TestCluster::start();
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

    let mut overrides = ConfigOverrides::default();
    let first = credlet_kube::client(KubeClientOptions::infer().with_authenticators(Arc::clone(&env))).unwrap();
    overrides.context = Some("d".to_owned());
    let second = credlet_kube::client(KubeClientOptions::with_overrides(overrides).with_authenticators(env)).unwrap();

    assert_eq!((first.default_namespace(), second.default_namespace()), ("default", "blue"));
    assert!(within(first.apiserver_version()).await.is_err());
    within(second.apiserver_version()).await.unwrap();
}

#[tokio::test]
async fn invalid_kubeconfig_is_not_replaced_by_pod_identity() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    std::fs::write(&file, "current-context: gone").unwrap();
    let host = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "6443")];
    let path = file.display().to_string();
    let error = credlet_kube::client(KubeClientOptions::infer().with_authenticators(in_env(&[
        ("KUBECONFIG", &path),
        host[0],
        host[1],
    ])));
    let error = error.err().unwrap().to_string();
    assert!(error.contains("context \"gone\" not found"), "{error}");
}

#[tokio::test]
async fn clients_share_one_plugin_run() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let cluster = TestCluster::start();
    cluster.server.accept_token(token.expose());
    let plugin = TestPlugin::answering(token.expose());
    let clients: Vec<_> = (0..10).map(|_| cluster.client(&plugin)).collect();
    assert_eq!(plugin.runs(), 0);

    let all = clients.into_iter().map(|client| tokio::spawn(async move { client.apiserver_version().await }));
    for answer in all.collect::<Vec<_>>() {
        within(answer).await.unwrap().unwrap();
    }
    assert_eq!((plugin.runs(), cluster.server.counts().requests), (1, 10));
}

#[tokio::test]
async fn revoked_token_costs_one_more_run() {
    let watch = LeakCheck::new();
    let tokens = [watch.secret("revoked"), watch.secret("new")];
    let cluster = TestCluster::start();
    tokens.iter().for_each(|token| cluster.server.accept_token(token.expose()));
    let plugin = TestPlugin::answering(tokens[0].expose()).on_the_next_run().answers(tokens[1].expose());
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
async fn installs_no_default_crypto_provider() {
    // kube's default features bring the other one, and so the TLS library has no opinion.
    assert!(catch_unwind(rustls::ClientConfig::builder).is_err());
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let cluster = TestCluster::start();
    cluster.server.accept_token(token.expose());
    let plugin = TestPlugin::answering(token.expose());
    within(cluster.client(&plugin).apiserver_version()).await.unwrap();
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

#[tokio::test]
async fn plugin_error_reaches_kube_without_secrets() {
    let watch = LeakCheck::new();
    let secret = watch.secret("on stdout");
    let cluster = TestCluster::start();
    let plugin = TestPlugin::new().prints(format!("{{\"token\": \"{}\"", secret.expose())).exits(3);
    let client = credlet_kube::client(cluster.options(cluster.resolve(&exec_user(&plugin, "Never")))).unwrap();
    let error = within(client.apiserver_version()).await.unwrap_err();
    watch.error(&error);
    let kube::Error::Service(error) = error else { panic!("{error}") };
    assert!(error.to_string().contains("exited with code 3"), "{error}");
}
