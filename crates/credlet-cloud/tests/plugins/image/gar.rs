use crate::support::{FakeEndpoint, FakeReply, ProviderSandbox};
use credlet_api::image::ProviderApiVersion;
use credlet_cloud::image::gar;
use serde_json::{Value, json};

const IMAGE: &str = "europe-docker.pkg.dev/project/team/app";
const WORKLOAD: &str = "get-credentials --identity-provider https://id.example/c --project-id acme";
const ANNOTATION: &str = "iam.gke.io/enable-wi-image-pull";

/// A node, its metadata server, and the token of that server with this lifetime in seconds.
fn node(life: impl Into<Value>) -> (ProviderSandbox, FakeEndpoint, String) {
    let mut sandbox = ProviderSandbox::new(gar::run);
    let (token, life) = (sandbox.secret("access token"), life.into());
    let answer = json!({"access_token": token, "expires_in": life, "token_type": "Bearer"}).to_string();
    let metadata = FakeEndpoint::start(move |_| FakeReply::Status(200, answer.clone()));
    with_metadata(&mut sandbox, &metadata);
    (sandbox, metadata, token)
}

fn with_metadata(sandbox: &mut ProviderSandbox, fake_endpoint: &FakeEndpoint) {
    sandbox.set("GCE_METADATA_HOST", fake_endpoint.url.trim_start_matches("http://"));
}

#[test]
fn node_token_is_the_password() {
    let (sandbox, metadata, token) = node(3599);
    let run = sandbox.run_for("get-credentials --v=3", IMAGE);
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
    let request = &metadata.seen()[0];
    assert_eq!(
        (&*request.method, &*request.path),
        ("GET", "/computeMetadata/v1/instance/service-accounts/default/token")
    );
    assert_eq!(request.header("metadata-flavor"), "Google");
    assert_eq!(metadata.seen().len(), 1);
}

#[test]
fn matches_whole_labels_of_google_hosts() {
    let (sandbox, metadata, _) = node(3599);
    for host in ["gcr.io", "eu.gcr.io", "europe-west3-docker.pkg.dev", "container.cloud.google.com"] {
        let run = sandbox.run_for("get-credentials", &format!("{host}/x/y"));
        assert!(run.auth().iter().any(|auth| auth.starts_with(&format!("{host} _token:"))), "{host}");
    }
    let requests = metadata.seen().len();
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
        let run = sandbox.run_for("get-credentials", &format!("{host}/x/y"));
        assert_eq!((run.auth(), run.cache_duration()), (vec![], "0s".to_owned()), "{host}");
    }
    assert_eq!(metadata.seen().len(), requests);
}

#[test]
fn only_configured_mirrors_get_password() {
    let (sandbox, _metadata, token) = node(3599);
    let run = sandbox.run_for("--registry-mirror m.example=eu.gcr.io", "m.example/x");
    assert!(run.auth().contains(&format!("m.example _token:{token}")), "{run:?}");
    assert_eq!(sandbox.run_for("--registry-mirror m.example=eu.gcr.io", "n.example/x").auth(), [""; 0]);
}

#[test]
fn cache_duration_and_key_type_settings() {
    for (life, expected) in [(json!(3600), "30m0s"), (json!(61), "30s"), (json!("120"), "1m0s"), (Value::Null, "0s")] {
        let (sandbox, _metadata, _) = node(life.clone());
        assert_eq!(sandbox.run_for("", IMAGE).cache_duration(), expected, "{life}");
    }
    let (mut sandbox, _metadata, _) = node(3600);
    for (limit, expected) in [("10m", "10m0s"), ("2h", "30m0s"), ("0s", "0s")] {
        sandbox.set("KUBE_SIDECAR_CACHE_DURATION", limit);
        assert_eq!(sandbox.run_for("", IMAGE).cache_duration(), expected, "{limit}");
    }
    for (kind, expected) in [("image", "Image"), ("registry", "Registry"), ("global", "Global")] {
        sandbox.set("KUBE_SIDECAR_CACHE_TYPE", kind);
        assert_eq!(sandbox.run_for("", IMAGE).response()["cacheKeyType"], expected);
    }
    sandbox.set("KUBE_SIDECAR_CACHE_TYPE", "Registry");
    assert!(sandbox.run_for("", IMAGE).error().contains("`image`, `registry` or `global`"));
    sandbox.set("KUBE_SIDECAR_CACHE_TYPE", "");
    sandbox.set("KUBE_SIDECAR_CACHE_DURATION", "soon");
    assert!(sandbox.run_for("", IMAGE).error().contains("invalid KUBE_SIDECAR_CACHE_DURATION"));
}

#[test]
fn responds_in_requested_version() {
    let (mut sandbox, _metadata, _) = node(3600);
    for version in [ProviderApiVersion::V1, ProviderApiVersion::V1beta1, ProviderApiVersion::V1alpha1] {
        sandbox.api_version = version;
        assert_eq!(sandbox.run_for("", IMAGE).response()["apiVersion"], version.as_str());
    }
}

#[test]
fn annotated_account_uses_its_identity() {
    let (mut sandbox, metadata, _) = node(3600);
    let federated = sandbox.secret("federated token");
    let answer = json!({"access_token": federated, "expires_in": 1200}).to_string();
    let sts = FakeEndpoint::start(move |_| FakeReply::Status(200, answer.clone()));
    sandbox.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", format!("{}/", sts.url));
    sandbox.set_account([(ANNOTATION, "true")]);
    let run = sandbox.run_for(WORKLOAD, IMAGE);
    assert!(run.auth().contains(&format!("europe-docker.pkg.dev _token:{federated}")));
    assert_eq!(run.cache_duration(), "10m0s");
    let request = &sts.seen()[0];
    assert_eq!((&*request.method, &*request.path), ("POST", "/v1/token"));
    assert_eq!(request.field("audience"), "identitynamespace%3Aacme.svc.id.goog%3Ahttps%3A%2F%2Fid.example%2Fc");
    assert_eq!(request.field("subject_token_type"), "urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt");
    assert!(!request.field("subject_token").is_empty());
    assert!(metadata.seen().is_empty());
}

#[test]
fn service_account_token_must_be_jwt_over_https() {
    let (mut sandbox, metadata, _) = node(3600);
    let sts = FakeEndpoint::start(|_| FakeReply::Status(500, String::new()));
    sandbox.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", &sts.url);
    sandbox.set_account([(ANNOTATION, "true")]);
    sandbox.token = Some("hunter2".into());
    let run = sandbox.run_for(WORKLOAD, IMAGE);
    assert!(run.error().contains("invalid service account token: not a JSON web token"), "{run:?}");
    assert!(sts.seen().is_empty() && metadata.seen().is_empty() && !run.stderr.contains("hunter2"));
    sandbox.set_account([(ANNOTATION, "true")]);
    sandbox.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", "http://192.0.2.1");
    assert!(sandbox.run_for(WORKLOAD, IMAGE).error().contains("refused to send credentials to 192.0.2.1:80 over http"));
}

#[test]
fn failed_exchange_does_not_fall_back_to_node() {
    let (mut sandbox, metadata, _) = node(3600);
    for annotation in ["", "false", "True"] {
        sandbox.set_account([(ANNOTATION, annotation)]);
        sandbox.run_for(WORKLOAD, IMAGE).response();
    }
    sandbox.set_account([(ANNOTATION, "true")]);
    sandbox.run_for("get-credentials", IMAGE).response();
    assert_eq!(metadata.seen().len(), 4);
    let sts = FakeEndpoint::start(|_| {
        FakeReply::Status(400, r#"{"error":"invalid_grant","error_description":"hunter2"}"#.into())
    });
    sandbox.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", &sts.url);
    let run = sandbox.run_for(WORKLOAD, IMAGE);
    assert!(run.error().contains("400 Bad Request (invalid_grant)") && !run.stderr.contains("hunter2"), "{run:?}");
    sandbox.token = None;
    assert!(sandbox.run_for(WORKLOAD, IMAGE).error().contains("missing service account token in the request"));
    assert_eq!(metadata.seen().len(), 4);
}

#[test]
fn rejects_invalid_exchange_responses() {
    let elsewhere = FakeEndpoint::start(|_| FakeReply::Status(200, r#"{"access_token":"stolen"}"#.into()));
    let url = elsewhere.url.clone();
    for (reply, reason) in [
        (FakeReply::Status(200, "<html>hunter2".into()), "HTML instead of JSON"),
        (FakeReply::Status(200, "hunter2".into()), "not valid JSON"),
        (FakeReply::Status(200, "{}".into()), "JSON with missing or invalid fields"),
        (FakeReply::Status(200, r#"{"access_token":"","expires_in":5}"#.into()), "empty token"),
        (FakeReply::Status(200, r#"{"access_token":"hunter2","expires_in":0}"#.into()), "expired at"),
        (FakeReply::Status(503, "hunter2".into()), "503 Service Unavailable"),
        (FakeReply::WithHeader(307, "Location", url, String::new()), "refused to follow a redirect"),
        (FakeReply::Flood, "exceeds 1024 KiB"),
    ] {
        let (mut sandbox, metadata, _) = node(3600);
        let sts = FakeEndpoint::start(move |_| reply.clone());
        sandbox.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", &sts.url);
        sandbox.set_account([(ANNOTATION, "true")]);
        let run = sandbox.run_for(WORKLOAD, IMAGE);
        assert!(run.error().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
        assert!(metadata.seen().is_empty(), "the node's in its place: {reason}");
    }
    assert!(elsewhere.seen().is_empty());
    let (mut sandbox, _metadata, _) = node(3600);
    let silent = sandbox.silent_endpoint();
    sandbox.set("CLOUDSDK_API_ENDPOINT_OVERRIDES_STS", &silent.url);
    sandbox.set_account([(ANNOTATION, "true")]);
    assert!(sandbox.run_for(WORKLOAD, IMAGE).error().contains("timed out after "));
}

#[test]
fn rejects_invalid_flags() {
    let (sandbox, _metadata, _) = node(3600);
    for (line, reason) in [
        ("--identity-provider https://id.example", "--project-id"),
        ("--authFlow x", "[possible values: gcr, dockercfg, dockercfg-url]"),
        ("--nonsense", "unexpected argument"),
    ] {
        let run = sandbox.run_for(line, IMAGE);
        assert!(run.stdout.is_empty() && run.stderr.contains(reason), "{run:?}");
    }
}

#[test]
fn legacy_dockercfg_flows() {
    let mut sandbox = ProviderSandbox::new(gar::run);
    let password = sandbox.secret("docker password");
    let file = json!({"https://r.example": {"username": "ada", "password": password}}).to_string();
    let answer = file.clone();
    let elsewhere = FakeEndpoint::start(move |_| FakeReply::Status(200, answer.clone()));
    let address = format!("{}/cfg", elsewhere.url);
    let metadata = FakeEndpoint::start(move |request| match request.path.rsplit('/').next() {
        Some("google-dockercfg") => FakeReply::Status(200, file.clone()),
        Some("google-dockercfg-url") => FakeReply::Status(200, address.clone()),
        _ => FakeReply::Status(404, String::new()),
    });
    with_metadata(&mut sandbox, &metadata);
    for flow in ["--authFlow=dockercfg", "-a dockercfg-url", "--auth-flow dockercfg"] {
        let run = sandbox.run_for(&format!("get-credentials {flow}"), "r.example/x");
        assert_eq!(
            (run.auth(), run.cache_duration()),
            (vec![format!("https://r.example ada:{password}")], "0s".into())
        );
    }
    // The metadata header is sent only to the metadata server.
    assert_eq!((&*elsewhere.seen()[0].path, elsewhere.seen()[0].header("metadata-flavor")), ("/cfg", ""));
    for (bad, reason) in [("hunter2", "docker configuration"), ("", "docker configuration")] {
        let metadata = FakeEndpoint::start(move |_| FakeReply::Status(200, bad.into()));
        with_metadata(&mut sandbox, &metadata);
        let run = sandbox.run_for("-a dockercfg", "r.example/x");
        assert!(run.error().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
        assert!(sandbox.run_for("-a dockercfg-url", "r.example/x").error().contains("not a URL"));
    }
}

#[test]
fn reports_metadata_server_failures() {
    let (mut sandbox, ..) = node(0);
    assert!(sandbox.run_for("", IMAGE).error().contains("token of the instance's service account expired at"));
    let other = FakeEndpoint::start(|_| FakeReply::Status(200, "{}".into()));
    let elsewhere = other.url.clone();
    let mut said = |answer: Box<dyn Fn() -> FakeReply + Send + Sync>| {
        let metadata = FakeEndpoint::start(move |_| answer());
        with_metadata(&mut sandbox, &metadata);
        let run = sandbox.run_for("", IMAGE);
        let refusal = run.error().to_owned();
        assert!(!refusal.contains("hunter2"), "{refusal}");
        refusal
    };
    assert!(said(Box::new(|| FakeReply::Status(404, String::new()))).contains("404 Not Found"));
    assert!(said(Box::new(|| FakeReply::Status(500, "hunter2".into()))).contains("500 Internal Server Error"));
    assert!(said(Box::new(|| FakeReply::Status(200, "<html>hunter2".into()))).contains("HTML instead of JSON"));
    assert!(said(Box::new(|| FakeReply::Status(200, "hunter2".into()))).contains("not valid JSON"));
    assert!(said(Box::new(|| FakeReply::Status(200, r#"{"access_token":""}"#.into()))).contains("empty token"));
    assert!(said(Box::new(|| FakeReply::Flood)).contains("exceeds 1024 KiB"));
    assert!(
        said(Box::new(move || FakeReply::WithHeader(302, "Location", elsewhere.clone(), String::new())))
            .contains("refused to follow a redirect")
    );
    assert!(other.seen().is_empty());
    let silent = sandbox.silent_endpoint();
    with_metadata(&mut sandbox, &silent);
    assert!(sandbox.run_for("", IMAGE).error().contains("timed out after 10 s"));
}
