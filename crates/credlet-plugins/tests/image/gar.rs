use credlet_api::image::ApiVersion;
use credlet_plugins::image::gar;
use serde_json::{Value, json};

use crate::peer::{Peer, Reply};
use crate::support::Stage;

const IMAGE: &str = "europe-docker.pkg.dev/project/team/app";
const WORKLOAD: &str = "get-credentials --identity-provider https://id.example/c --project-id acme";
const ANNOTATION: &str = "iam.gke.io/enable-wi-image-pull";

/// A node whose metadata server gives this token for so many seconds.
fn node(life: impl Into<Value>) -> (Stage, Peer, String) {
    let mut stage = Stage::new(gar::run);
    let (token, life) = (stage.secret("access token"), life.into());
    let answer = json!({"access_token": token, "expires_in": life, "token_type": "Bearer"}).to_string();
    let metadata = Peer::start(move |_| Reply::Answer(200, answer.clone()));
    with_metadata(&mut stage, &metadata);
    (stage, metadata, token)
}

fn with_metadata(stage: &mut Stage, peer: &Peer) {
    stage.set("GCE_METADATA_HOST", peer.url.trim_start_matches("http://"));
}

#[test]
fn the_nodes_token_is_the_password_of_googles_registries() {
    let (stage, metadata, token) = node(3599);
    let run = stage.ask("get-credentials --v=3", IMAGE);
    let auth = |key: &str| format!("\"{key}\":{{\"username\":\"_token\",\"password\":\"{token}\"}}");
    let keys = ["*.gcr.io", "*.pkg.dev", "container.cloud.google.com", "europe-docker.pkg.dev", "gcr.io"];
    assert_eq!(
        run.stdout,
        format!(
            "{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
             \"cacheKeyType\":\"Image\",\"cacheDuration\":\"29m59s\",\"auth\":{{{}}}}}\n",
            keys.map(auth).join(",")
        )
    );
    let asked = &metadata.seen()[0];
    assert_eq!((&*asked.method, &*asked.path), ("GET", "/computeMetadata/v1/instance/service-accounts/default/token"));
    assert_eq!(asked.header("metadata-flavor"), "Google");
    assert_eq!(metadata.seen().len(), 1);
}

#[test]
fn googles_registries_are_known_by_whole_labels() {
    let (stage, metadata, _) = node(3599);
    for host in ["gcr.io", "eu.gcr.io", "europe-west3-docker.pkg.dev", "container.cloud.google.com"] {
        let run = stage.ask("get-credentials", &format!("{host}/x/y"));
        assert!(run.auth().iter().any(|auth| auth.starts_with(&format!("{host} _token:"))), "{host}");
    }
    let asked = metadata.seen().len();
    for host in [
        "gcr.io.evil.io",
        "evilgcr.io",
        "evil-pkg.dev",
        "pkg.dev",
        ".pkg.dev",
        "a.b.pkg.dev",
        "a.b.gcr.io",
        "eu.gcr.io:443",
        "gcr.io:5000",
        "EU.gcr.io",
        "eu.GCR.io",
        "eu_x.gcr.io",
        "eu.gcr.io.",
        "x@eu.gcr.io",
        "xcontainer.cloud.google.com",
        "a.container.cloud.google.com",
        "[::1]",
        "[fe80::1]:5000",
        "169.254.169.254",
        "localhost",
        "https:",
        "gсr.io",
        "metadata.google.internal",
        "docker.io",
    ] {
        let run = stage.ask("get-credentials", &format!("{host}/x/y"));
        assert_eq!((run.auth(), run.remembered()), (vec![], "0s".to_owned()), "{host}");
    }
    assert_eq!(metadata.seen().len(), asked);
}

#[test]
fn a_mirror_gets_a_password_only_if_it_is_named() {
    let (stage, _metadata, token) = node(3599);
    let run = stage.ask("--registry-mirror m.example=eu.gcr.io", "m.example/x");
    assert!(run.auth().contains(&format!("m.example _token:{token}")), "{run:?}");
    assert_eq!(stage.ask("--registry-mirror m.example=eu.gcr.io", "n.example/x").auth(), [""; 0]);
}

#[test]
fn an_answer_is_remembered_by_its_end_and_as_widely_and_long_as_the_node_is_told() {
    for (life, expected) in [(json!(3600), "30m0s"), (json!(61), "30s"), (json!("120"), "1m0s"), (Value::Null, "0s")] {
        let (stage, _metadata, _) = node(life.clone());
        assert_eq!(stage.ask("", IMAGE).remembered(), expected, "{life}");
    }
    let (mut stage, _metadata, _) = node(3600);
    for (limit, expected) in [("10m", "10m0s"), ("2h", "30m0s"), ("0s", "0s")] {
        stage.set("KUBE_SIDECAR_CACHE_DURATION", limit);
        assert_eq!(stage.ask("", IMAGE).remembered(), expected, "{limit}");
    }
    for (kind, expected) in [("image", "Image"), ("registry", "Registry"), ("global", "Global")] {
        stage.set("KUBE_SIDECAR_CACHE_TYPE", kind);
        assert_eq!(stage.ask("", IMAGE).answer()["cacheKeyType"], expected);
    }
    stage.set("KUBE_SIDECAR_CACHE_TYPE", "Registry");
    assert!(stage.ask("", IMAGE).refusal().contains("`image`, `registry` or `global`"));
    stage.set("KUBE_SIDECAR_CACHE_TYPE", "");
    stage.set("KUBE_SIDECAR_CACHE_DURATION", "soon");
    assert!(stage.ask("", IMAGE).refusal().contains("KUBE_SIDECAR_CACHE_DURATION is no duration"));
}

#[test]
fn it_answers_in_the_version_that_was_asked_for() {
    let (mut stage, _metadata, _) = node(3600);
    for version in [ApiVersion::V1, ApiVersion::V1beta1, ApiVersion::V1alpha1] {
        stage.version = version;
        assert_eq!(stage.ask("", IMAGE).answer()["apiVersion"], version.as_str());
    }
}

#[test]
fn a_service_account_that_wants_to_pulls_with_its_own_identity() {
    let (mut stage, metadata, _) = node(3600);
    let federated = stage.secret("federated token");
    let answer = json!({"access_token": federated, "expires_in": 1200}).to_string();
    let sts = Peer::start(move |_| Reply::Answer(200, answer.clone()));
    stage.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", format!("{}/", sts.url));
    stage.account([(ANNOTATION, "true")]);
    let run = stage.ask(WORKLOAD, IMAGE);
    assert!(run.auth().contains(&format!("europe-docker.pkg.dev _token:{federated}")));
    assert_eq!(run.remembered(), "10m0s");
    let asked = &sts.seen()[0];
    assert_eq!((&*asked.method, &*asked.path), ("POST", "/v1/token"));
    assert_eq!(asked.field("audience"), "identitynamespace%3Aacme.svc.id.goog%3Ahttps%3A%2F%2Fid.example%2Fc");
    assert_eq!(asked.field("subject_token_type"), "urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt");
    assert!(!asked.field("subject_token").is_empty());
    assert!(metadata.seen().is_empty());
}

#[test]
fn others_pull_with_the_nodes_and_nobody_falls_back_to_it() {
    let (mut stage, metadata, _) = node(3600);
    for annotation in ["", "false", "True"] {
        stage.account([(ANNOTATION, annotation)]);
        stage.ask(WORKLOAD, IMAGE).answer();
    }
    stage.account([(ANNOTATION, "true")]);
    stage.ask("get-credentials", IMAGE).answer();
    assert_eq!(metadata.seen().len(), 4);
    let sts = Peer::start(|_| Reply::Answer(400, r#"{"error":"invalid_grant","error_description":"hunter2"}"#.into()));
    stage.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", &sts.url);
    let run = stage.ask(WORKLOAD, IMAGE);
    assert!(run.refusal().contains("400 Bad Request (invalid_grant)") && !run.stderr.contains("hunter2"), "{run:?}");
    stage.token = None;
    assert!(stage.ask(WORKLOAD, IMAGE).refusal().contains("the request has no token of it"));
    assert_eq!(metadata.seen().len(), 4);
}

#[test]
fn an_exchange_that_misbehaves_is_a_failure_and_no_answer() {
    let elsewhere = Peer::start(|_| Reply::Answer(200, r#"{"access_token":"stolen"}"#.into()));
    let url = elsewhere.url.clone();
    for (reply, reason) in [
        (Reply::Answer(200, "<html>hunter2".into()), "web page instead of JSON"),
        (Reply::Answer(200, "hunter2".into()), "not JSON"),
        (Reply::Answer(200, "{}".into()), "lacks what belongs in it"),
        (Reply::Answer(200, r#"{"access_token":"","expires_in":5}"#.into()), "an empty token"),
        (Reply::Answer(200, r#"{"access_token":"hunter2","expires_in":0}"#.into()), "expired at"),
        (Reply::Answer(503, "hunter2".into()), "503 Service Unavailable"),
        (Reply::With(307, "Location", url, String::new()), "sends us to another place"),
        (Reply::Flood, "is larger than 1024 KiB"),
    ] {
        let (mut stage, metadata, _) = node(3600);
        let sts = Peer::start(move |_| reply.clone());
        stage.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", &sts.url);
        stage.account([(ANNOTATION, "true")]);
        let run = stage.ask(WORKLOAD, IMAGE);
        assert!(run.refusal().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
        assert!(metadata.seen().is_empty(), "the node's in its place: {reason}");
    }
    assert!(elsewhere.seen().is_empty());
    let (mut stage, _metadata, _) = node(3600);
    let silent = stage.silent_peer();
    stage.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", &silent.url);
    stage.account([(ANNOTATION, "true")]);
    assert!(stage.ask(WORKLOAD, IMAGE).refusal().contains("did not answer within "));
}

#[test]
fn what_cannot_be_on_the_command_line_is_said() {
    let (stage, _metadata, _) = node(3600);
    for (line, reason) in [
        ("--identity-provider https://id.example", "--project-id"),
        ("--authFlow x", "[possible values: gcr, dockercfg, dockercfg-url]"),
        ("--nonsense", "unexpected argument"),
    ] {
        let run = stage.ask(line, IMAGE);
        assert!(run.stdout.is_empty() && run.stderr.contains(reason), "{run:?}");
    }
}

#[test]
fn old_flows_give_what_the_nodes_metadata_has() {
    let mut stage = Stage::new(gar::run);
    let password = stage.secret("docker password");
    let file = json!({"https://r.example": {"username": "ada", "password": password}}).to_string();
    let answer = file.clone();
    let elsewhere = Peer::start(move |_| Reply::Answer(200, answer.clone()));
    let address = format!("{}/cfg", elsewhere.url);
    let metadata = Peer::start(move |asked| match asked.path.rsplit('/').next() {
        Some("google-dockercfg") => Reply::Answer(200, file.clone()),
        Some("google-dockercfg-url") => Reply::Answer(200, address.clone()),
        _ => Reply::Answer(404, String::new()),
    });
    with_metadata(&mut stage, &metadata);
    for flow in ["--authFlow=dockercfg", "-a dockercfg-url", "--auth-flow dockercfg"] {
        let run = stage.ask(&format!("get-credentials {flow}"), "r.example/x");
        assert_eq!((run.auth(), run.remembered()), (vec![format!("https://r.example ada:{password}")], "0s".into()));
    }
    // The metadata server's header is for the metadata server.
    assert_eq!((&*elsewhere.seen()[0].path, elsewhere.seen()[0].header("metadata-flavor")), ("/cfg", ""));
    for (bad, reason) in [("hunter2", "docker configuration"), ("", "docker configuration")] {
        let metadata = Peer::start(move |_| Reply::Answer(200, bad.into()));
        with_metadata(&mut stage, &metadata);
        let run = stage.ask("-a dockercfg", "r.example/x");
        assert!(run.refusal().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
        assert!(stage.ask("-a dockercfg-url", "r.example/x").refusal().contains("is not an address"));
    }
}

#[test]
fn a_metadata_server_that_fails_is_a_failure_and_no_answer() {
    let (mut stage, ..) = node(0);
    assert!(stage.ask("", IMAGE).refusal().contains("a token of this machine's account expired at"));
    let other = Peer::start(|_| Reply::Answer(200, "{}".into()));
    let elsewhere = other.url.clone();
    let mut said = |answer: Box<dyn Fn() -> Reply + Send + Sync>| {
        let metadata = Peer::start(move |_| answer());
        with_metadata(&mut stage, &metadata);
        let run = stage.ask("", IMAGE);
        let refusal = run.refusal().to_owned();
        assert!(!refusal.contains("hunter2"), "{refusal}");
        refusal
    };
    assert!(said(Box::new(|| Reply::Answer(404, String::new()))).contains("404 Not Found"));
    assert!(said(Box::new(|| Reply::Answer(500, "hunter2".into()))).contains("500 Internal Server Error"));
    assert!(said(Box::new(|| Reply::Answer(200, "<html>hunter2".into()))).contains("web page instead of JSON"));
    assert!(said(Box::new(|| Reply::Answer(200, "hunter2".into()))).contains("not JSON"));
    assert!(said(Box::new(|| Reply::Answer(200, r#"{"access_token":""}"#.into()))).contains("an empty token"));
    assert!(said(Box::new(|| Reply::Flood)).contains("is larger than 1024 KiB"));
    assert!(
        said(Box::new(move || Reply::With(302, "Location", elsewhere.clone(), String::new())))
            .contains("sends us to another place")
    );
    assert!(other.seen().is_empty());
    let silent = stage.silent_peer();
    with_metadata(&mut stage, &silent);
    assert!(stage.ask("", IMAGE).refusal().contains("did not answer within 10 s"));
}
