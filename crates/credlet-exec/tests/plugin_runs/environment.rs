use credlet_api::exec::{ApiVersion, Cluster, FailedResponse, RawExtension};
use credlet_exec::{EnvInheritance, ExecOptions, FetchReason, Source as _};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;

use crate::{config, exec_plugin, fetch, run};

#[tokio::test]
async fn passes_arguments_exec_info_and_null_stdin() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let plugin = TestPlugin::answering(token.expose()).reports_with_stdin();
    let config = config(&plugin).args(["--a b", "", "$HOME", "*"]);
    let fetched = fetch(&exec_plugin(config, None, ExecOptions::default())).await.unwrap();
    assert_eq!(fetched.value.token, Some(token));
    watch.text(format!("{fetched:?}"));

    let report = plugin.report();
    assert_eq!(report.args, ["--a b", "", "$HOME", "*"]);
    assert_eq!(
        report.exec_info.as_deref(),
        Some(
            "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\
             \"spec\":{\"interactive\":false}}\n"
        )
    );
    assert_eq!(report.stdin.as_deref(), Some(&[][..]));
    assert_eq!(report.cwd, std::env::current_dir().unwrap());
    assert!(!report.stdin_is_terminal && !report.stderr_is_terminal);
    // A separate process group, so that its children are killed with it.
    assert_eq!(report.process_group, report.pid);
}

#[tokio::test]
async fn inherits_variables_by_default() {
    let plugin = TestPlugin::answering("token").reports();
    let added = config(&plugin).env("ADDED", "$literally").env("PATH", "/nowhere");
    fetch(&exec_plugin(added.clone(), None, ExecOptions::default())).await.unwrap();
    let report = plugin.report();
    assert_eq!(report.env["ADDED"], "$literally");
    assert_eq!(report.env["PATH"], "/nowhere");
    assert!(report.env.contains_key("CARGO_MANIFEST_DIR"));

    let alone = ExecOptions { inherit: EnvInheritance::NONE, ..ExecOptions::default() };
    fetch(&exec_plugin(added, None, alone)).await.unwrap();
    let names: Vec<_> = plugin.report().env.into_keys().collect();
    assert_eq!(names, ["ADDED", "KUBERNETES_EXEC_INFO", "PATH"]);
}

#[tokio::test]
async fn passes_cluster_only_if_configured() {
    let plugin = TestPlugin::answering("token").reports();
    let cluster = Cluster {
        server: "https://foo".into(),
        certificate_authority_data: b"baz".to_vec(),
        config: Some(RawExtension::from_json(r#"{"b":1,"a":"<&>"}"#).unwrap()),
        ..Cluster::default()
    };
    fetch(&exec_plugin(config(&plugin), Some(cluster.clone()), ExecOptions::default())).await.unwrap();
    assert!(!plugin.report().exec_info.unwrap().contains("cluster"));

    let with_cluster = config(&plugin).provide_cluster_info(true);
    fetch(&exec_plugin(with_cluster, Some(cluster), ExecOptions::default())).await.unwrap();
    let info = plugin.report().exec_info.unwrap();
    let expected = "\"cluster\":{\"server\":\"https://foo\",\"certificate-authority-data\":\"YmF6\",\
                    \"config\":{\"b\":1,\"a\":\"\\u003c\\u0026\\u003e\"}}";
    assert!(info.contains(expected), "{info}");
}

#[tokio::test]
async fn passes_rejected_response_to_v1alpha1() {
    let plugin = TestPlugin::answering("token").reports();
    let mut config = config(&plugin);
    config.api_version = ApiVersion::V1alpha1;
    let v1alpha1 = exec_plugin(config, None, ExecOptions::default());
    let response = FailedResponse { code: 401, header: [("www-authenticate".into(), vec!["Bearer".into()])].into() };
    v1alpha1.fetch(&FetchReason::Unauthorized(response)).await.unwrap();
    let info = plugin.report().exec_info.unwrap();
    assert!(info.contains(r#""response":{"header":{"Www-Authenticate":["Bearer"]},"code":401}"#), "{info}");
}

#[tokio::test]
async fn returns_the_expiry() {
    let plugin = TestPlugin::answering("token").expiring_at("2030-01-02T03:04:05+02:00");
    assert_eq!(run(&plugin).await.unwrap().expires, Some("2030-01-02T01:04:05Z".parse().unwrap()));
}
