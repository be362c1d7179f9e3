use credlet_api::image::AuthConfig;
use credlet_image::{CredentialOrigin, DockerKeyring, LookupRequest};
use credlet_testkit::plugin::TestPlugin;

use crate::{Sandbox, get, look_up_with, names, responding, response_json};

#[tokio::test]
async fn trace_reports_decisions_and_reasons() {
    let sandbox = Sandbox::new()
        .provider_for("other", responding("Image", None), &["a.io:443", "a.io/*", "b.example"], "")
        .provider(
            "p",
            TestPlugin::new().prints(response_json("Registry", Some("10m"), &[("a.io", "u", "p"), ("c.io", "u", "p")])),
            "",
        );
    let credentials = sandbox.load();
    let trace = get(&credentials, "a.io/x").await.trace.to_string();
    for part in [
        "✗ not run: no pattern matches the image",
        "hint: `a.io:443` nearly matches: the pattern has port 443, the image has no port",
        "hint: `a.io/*` nearly matches: a `*` in a path never matches",
        "✓ the pattern `*.io` matches",
        "(scope Registry, cached for 10m0s)",
        "✓ the credential for `a.io` is tried",
        "✗ the credential for `c.io` is not for this image",
    ] {
        assert!(trace.contains(part), "{part}\n{trace}");
    }
    assert!(!trace.contains("b.example"));
    let again = get(&credentials, "a.io/y").await.trace.to_string();
    assert!(again.contains("used a cached response (scope Registry, for a.io/x)"), "{again}");
}

#[tokio::test]
async fn metrics_match_kubelet() {
    let sandbox = Sandbox::new()
        .provider("p", responding("Image", None), "")
        .provider("q", TestPlugin::failing(2, "no\n"), "")
        .provider("r", TestPlugin::new().prints("garbage"), "");
    let credentials = sandbox.load();
    get(&credentials, "a.io/x").await;
    get(&credentials, "a.io/x").await;
    let text = credentials.metrics().encode();
    let hash = credentials.config_hash();
    for line in [
        "# HELP kubelet_credential_provider_plugin_errors_total [ALPHA] Number of errors from credential provider plugin",
        "# TYPE kubelet_credential_provider_plugin_errors_total counter",
        "kubelet_credential_provider_plugin_errors_total{plugin_name=\"q\"} 1",
        "# HELP kubelet_credential_provider_plugin_duration [ALPHA] Duration of execution in seconds for credential \
         provider plugin",
        "# TYPE kubelet_credential_provider_plugin_duration histogram",
        "kubelet_credential_provider_plugin_duration_bucket{plugin_name=\"p\",le=\"0.005\"} 1",
        "kubelet_credential_provider_plugin_duration_bucket{plugin_name=\"p\",le=\"10\"} 1",
        "kubelet_credential_provider_plugin_duration_count{plugin_name=\"r\"} 1",
        "# HELP kubelet_credential_provider_config_info [ALPHA] Information about the last applied credential provider \
         configuration with hash as label",
        &format!("kubelet_credential_provider_config_info{{hash=\"{hash}\"}} 1"),
        "credlet_image_provider_runs_total{plugin_name=\"p\",outcome=\"ok\"} 1",
        "credlet_image_provider_runs_total{plugin_name=\"q\",outcome=\"failed\"} 1",
        "credlet_image_provider_runs_total{plugin_name=\"r\",outcome=\"bad_answer\"} 1",
        "credlet_image_provider_lookups_total{plugin_name=\"p\",result=\"hit\"} 1",
        "credlet_image_provider_backoffs_total{plugin_name=\"q\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("plugin_errors_total{plugin_name=\"p\"}"));
    assert!(!text.contains("plugin_errors_total{plugin_name=\"r\"}"), "the kubelet does not count invalid responses");
    assert!(!text.contains("plugin_duration_bucket{plugin_name=\"p\",le=\"60\"}"));
}

#[tokio::test]
async fn pull_secrets_precede_node_and_providers() {
    let sandbox = Sandbox::new().provider("p", responding("Image", None), "");
    let ring =
        |name: &str| DockerKeyring::new([("a.io", AuthConfig { username: name.to_owned(), password: "p".into() })]);
    let (secrets, docker) = ([ring("secret")], ring("docker"));
    let request = LookupRequest { pull_secrets: &secrets, node: Some(&docker), ..LookupRequest::default() };
    let look_up = look_up_with(&sandbox.load(), "a.io/x", &request).await;
    assert_eq!(names(&look_up), ["secret", "docker", "user"]);
    assert_eq!(look_up.credentials[0].origin, CredentialOrigin::PullSecret(0));
    assert_eq!(look_up.credentials[1].origin, CredentialOrigin::Node);
}

#[test]
fn rereads_node_config_after_five_minutes() {
    let sandbox = Sandbox::new();
    let write = |user: &str| {
        let text = format!("{{\"auths\": {{\"r.io\": {{\"username\": \"{user}\", \"password\": \"p\"}}}}}}");
        std::fs::write(sandbox.dir.path().join("config.json"), text).unwrap();
    };
    let kept = credlet_image::NodeDockerConfig::new(Some(sandbox.dir.path().to_owned()), &sandbox.platform());
    let user = || {
        let keyring = kept.keyring()?;
        Some(credlet_image::look_up(&[&keyring], "r.io/x").first()?.auth.username.clone())
    };
    assert_eq!(user(), None);
    write("first");
    assert_eq!(user(), None, "that there is none is kept, too");
    sandbox.clock.advance(std::time::Duration::from_secs(300));
    assert_eq!(user().unwrap(), "first");
    write("second");
    sandbox.clock.advance(std::time::Duration::from_secs(299));
    assert_eq!(user().unwrap(), "first");
    sandbox.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(user().unwrap(), "second");
}

#[test]
fn reads_docker_config_like_kubelet() {
    use std::collections::BTreeMap;

    use credlet_exec::FixedEnv;
    use credlet_image::{look_up, node_docker_config, pull_secret};
    use zeroize::Zeroizing;

    let dir = tempfile::tempdir().unwrap();
    let env = FixedEnv::new([("HOME", dir.path().join("home"))]).in_dir(dir.path().join("here"));
    for sub in ["root", "here", "home/.docker"] {
        std::fs::create_dir_all(dir.path().join(sub)).unwrap();
    }
    let root = dir.path().join("root");
    let write = |path: &str, text: &str| std::fs::write(dir.path().join(path), text).unwrap();
    let found = |root: &std::path::Path| {
        let (_, keyring) = node_docker_config(Some(root), &env)?;
        look_up(&[&keyring], "r.io/x").first().map(|found| found.auth.username.clone())
    };
    assert_eq!(found(&root), None);
    write("home/.dockercfg", r#"{"r.io": {"username": "legacy", "password": "p"}}"#);
    assert_eq!(found(&root).unwrap(), "legacy");
    // base64 of `auth:p`, without padding and with a line break, goes before username and password.
    write("home/.docker/config.json", "{\"auths\": {\"r.io\": {\"auth\": \"YXV0\\naDpw\", \"username\": \"x\"}}}");
    assert_eq!(found(&root).unwrap(), "auth");
    write("root/config.json", "not json");
    assert_eq!(found(&root).unwrap(), "auth", "unreadable files are skipped");
    write("root/config.json", r#"{"auths": {"r.io": {"username": "root"}}, "credsStore": "x"}"#);
    assert_eq!(found(&root).unwrap(), "root");

    let data = |name: &str| {
        BTreeMap::from([(name.to_owned(), Zeroizing::new(br#"{"auths": {"r.io": {"username": "s"}}}"#.to_vec()))])
    };
    assert!(pull_secret("kubernetes.io/dockerconfigjson", &data(".dockerconfigjson")).unwrap().is_ok());
    assert!(pull_secret("kubernetes.io/dockercfg", &data(".dockerconfigjson")).is_none());
    assert!(pull_secret("Opaque", &data(".dockerconfigjson")).is_none());
}
