//! From kube's own configuration: the two-line change.

use std::collections::HashMap;
use std::time::Duration;

use credlet_kube::KubeClientOptions;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use kube::Config;
use kube::config::{ExecAuthCluster, ExecConfig, ExecInteractiveMode};

use crate::{TestCluster, within};

fn config(cluster: &TestCluster, plugin: &TestPlugin) -> Config {
    let mut config = Config::new(cluster.server.url().parse().unwrap());
    config.root_cert = Some(vec![cluster.ca.der().to_vec()]);
    config.auth_info.exec = Some(ExecConfig {
        api_version: Some("client.authentication.k8s.io/v1".to_owned()),
        command: Some(plugin.command().display().to_string()),
        interactive_mode: Some(ExecInteractiveMode::Never),
        ..ExecConfig::default()
    });
    config
}

#[tokio::test]
async fn builds_client_from_kube_config() {
    let watch = LeakCheck::new();
    let tokens = [watch.secret("first"), watch.secret("second")];
    let in_env = watch.secret("environment");
    let cluster = TestCluster::start();
    cluster.server.accept_token(tokens[1].expose());
    let plugin = TestPlugin::new().reports().answers(tokens[0].expose()).on_the_next_run().answers(tokens[1].expose());

    let mut config = config(&cluster, &plugin);
    config.default_namespace = "blue".to_owned();
    config.headers = vec![("x-flavour".parse().unwrap(), "vanilla".parse().unwrap())];
    config.auth_info.impersonate = Some("jane".to_owned());
    config.auth_info.impersonate_groups = Some(vec!["dev".to_owned(), "ops".to_owned()]);
    let exec = config.auth_info.exec.as_mut().unwrap();
    exec.env =
        Some(vec![HashMap::from([("name", "SECRET"), ("value", in_env.expose())].map(|(k, v)| (k.into(), v.into())))]);
    exec.drop_env = Some(vec!["PATH".to_owned()]);
    exec.provide_cluster_info = true;
    exec.cluster =
        Some(ExecAuthCluster { config: Some(serde_json::json!({ "audience": "blue" })), ..Default::default() });

    let options = cluster.options(config);
    watch.text(format!("{options:?} {options:#?}"));
    let client = credlet_kube::client(options).unwrap();
    assert_eq!((client.default_namespace(), plugin.runs()), ("blue", 0));
    within(client.apiserver_version()).await.unwrap();

    assert_eq!(plugin.runs(), 2, "the refused token was not replaced");
    let last = cluster.server.last_request();
    let headers = |name: &str| {
        let of_name = last.headers.iter().filter(|(given, _)| given == name);
        of_name.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(headers("x-flavour"), ["vanilla"]);
    assert_eq!(
        (headers("impersonate-user"), headers("impersonate-group")),
        (vec!["jane".into()], vec!["dev".into(), "ops".into()])
    );
    let report = plugin.report_of(1);
    assert_eq!(report.env.get("SECRET").map(String::as_str), Some(in_env.expose()));
    assert!(!report.env.contains_key("PATH"));
    let told: serde_json::Value = serde_json::from_str(&report.env["KUBERNETES_EXEC_INFO"]).unwrap();
    assert_eq!(told["spec"]["cluster"]["config"]["audience"], "blue");
    assert_eq!(told["spec"]["cluster"]["server"], format!("{}/", cluster.server.url()));
}

#[tokio::test]
async fn uses_static_credentials_of_kube_config() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let cluster = TestCluster::start();
    cluster.server.accept_token(token.expose());
    cluster.server.accept_client("jane");
    let base = || {
        let mut config = Config::new(cluster.server.url().parse().unwrap());
        config.root_cert = Some(vec![cluster.ca.der().to_vec()]);
        config
    };

    let mut with_token = base();
    with_token.auth_info.token = Some(token.expose().into());
    within(credlet_kube::client(with_token).unwrap().apiserver_version()).await.unwrap();

    let mut with_certificate = base();
    let jane = cluster.identity("jane", &watch);
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path.display().to_string())
    };
    with_certificate.auth_info.client_certificate = file("jane.crt", jane.cert_pem());
    with_certificate.auth_info.client_key = file("jane.key", jane.key_pem());
    with_certificate.root_cert_file = file("ca.crt", cluster.ca.pem()).map(Into::into);
    within(credlet_kube::client(with_certificate).unwrap().apiserver_version()).await.unwrap();
    assert_eq!(cluster.server.last_request().common_name(), Some("jane"));

    let mut believing = Config::new(cluster.server.url().parse().unwrap());
    believing.accept_invalid_certs = true;
    believing.root_cert = base().root_cert;
    believing.auth_info.token = Some(token.expose().into());
    within(credlet_kube::client(believing).unwrap().apiserver_version()).await.unwrap();
}

#[tokio::test]
async fn keeps_timeouts_and_retries_of_kube_config() {
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    config.connect_timeout = Some(Duration::from_secs(7));
    config.read_timeout = Some(Duration::from_secs(8));
    config.default_retry = false;
    let options = KubeClientOptions::from(config);
    assert_eq!(options.client.limits.dial, Duration::from_secs(7));
    assert_eq!((options.read_timeout, options.retry), (Some(Duration::from_secs(8)), false));
}

#[tokio::test]
async fn rejects_invalid_kube_config() {
    let cluster = TestCluster::start();
    let plugin = TestPlugin::new();
    let mut config = config(&cluster, &plugin);
    config.auth_info.exec.as_mut().unwrap().interactive_mode = None;
    let error = credlet_kube::client(cluster.options(config)).err().unwrap().to_string();
    assert!(error.contains("interactiveMode"), "{error}");
}
