use credlet_api::exec::{ApiVersion, Cluster, Extension, Response};
use credlet_core::{ExecOptions, Inherit, Source as _, Why};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;

use crate::{config, exec_plugin, fetch, run};

#[tokio::test]
async fn a_plugin_gets_its_arguments_and_its_question_and_the_null_device() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let plugin = Plugin::answering(token.expose()).reports_with_stdin();
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
    // A group of its own, so that it can be ended with all that it starts.
    assert_eq!(report.process_group, report.pid);
}

#[tokio::test]
async fn a_plugin_inherits_our_variables_unless_told_otherwise() {
    let plugin = Plugin::answering("token").reports();
    let added = config(&plugin).env("ADDED", "$literally").env("PATH", "/nowhere");
    fetch(&exec_plugin(added.clone(), None, ExecOptions::default())).await.unwrap();
    let report = plugin.report();
    assert_eq!(report.env["ADDED"], "$literally");
    assert_eq!(report.env["PATH"], "/nowhere");
    assert!(report.env.contains_key("CARGO_MANIFEST_DIR"));

    let alone = ExecOptions { inherit: Inherit::NONE, ..ExecOptions::default() };
    fetch(&exec_plugin(added, None, alone)).await.unwrap();
    let names: Vec<_> = plugin.report().env.into_keys().collect();
    assert_eq!(names, ["ADDED", "KUBERNETES_EXEC_INFO", "PATH"]);
}

#[tokio::test]
async fn the_cluster_is_told_only_if_the_kubeconfig_says_so() {
    let plugin = Plugin::answering("token").reports();
    let cluster = Cluster {
        server: "https://foo".into(),
        certificate_authority_data: b"baz".to_vec(),
        config: Some(Extension::from_json(r#"{"b":1,"a":"<&>"}"#).unwrap()),
        ..Cluster::default()
    };
    fetch(&exec_plugin(config(&plugin), Some(cluster.clone()), ExecOptions::default())).await.unwrap();
    assert!(!plugin.report().exec_info.unwrap().contains("cluster"));

    let told = config(&plugin).provide_cluster_info(true);
    fetch(&exec_plugin(told, Some(cluster), ExecOptions::default())).await.unwrap();
    let info = plugin.report().exec_info.unwrap();
    let expected = "\"cluster\":{\"server\":\"https://foo\",\"certificate-authority-data\":\"YmF6\",\
                    \"config\":{\"b\":1,\"a\":\"\\u003c\\u0026\\u003e\"}}";
    assert!(info.contains(expected), "{info}");
}

#[tokio::test]
async fn a_v1alpha1_plugin_is_told_what_was_refused() {
    let plugin = Plugin::answering("token").reports();
    let mut config = config(&plugin);
    config.api_version = ApiVersion::V1alpha1;
    let plugin_of_2018 = exec_plugin(config, None, ExecOptions::default());
    let response = Response { code: 401, header: [("www-authenticate".into(), vec!["Bearer".into()])].into() };
    plugin_of_2018.fetch(&Why::Refused(response)).await.unwrap();
    let info = plugin.report().exec_info.unwrap();
    assert!(info.contains(r#""response":{"header":{"Www-Authenticate":["Bearer"]},"code":401}"#), "{info}");
}

#[tokio::test]
async fn an_answer_keeps_its_expiry() {
    let plugin = Plugin::answering("token").expiring_at("2030-01-02T03:04:05+02:00");
    assert_eq!(run(&plugin).await.unwrap().expires, Some("2030-01-02T01:04:05Z".parse().unwrap()));
}
