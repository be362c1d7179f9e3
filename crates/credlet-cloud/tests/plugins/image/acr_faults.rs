use serde_json::{Value, json};

use super::acr::{AcrNode, HOST, usual_challenge};
use crate::support::{FakeEndpoint, FakeReply};

#[test]
fn cache_duration_follows_password_expiry() {
    for (at, expected) in [(json!(1_794_770_279), "5s"), (json!(9_000_000_000_i64), "12h0m0s"), (Value::Null, "0s")] {
        assert_eq!(AcrNode::with_end(&at).run(HOST).cache_duration(), expected, "{at}");
    }
    let run = AcrNode::with_end(&json!(1_794_770_000)).run(HOST);
    assert!(run.error().contains("password of foo.azurecr.io expired at"), "{run:?}");
}

#[test]
fn no_token_for_invalid_challenge() {
    let realm = |realm: &str| format!(r#"Bearer realm="{realm}",service="{HOST}""#);
    for reply in [
        FakeReply::Status(200, "{}".into()),
        FakeReply::Status(401, String::new()),
        FakeReply::Status(404, "<html>hunter2</html>".into()),
        FakeReply::WithHeader(401, "Www-Authenticate", r#"Basic realm="x""#.into(), String::new()),
        FakeReply::WithHeader(401, "Www-Authenticate", "Bearer realm=".into(), String::new()),
        FakeReply::WithHeader(401, "Www-Authenticate", r#"Bearer realm="x,service=y"#.into(), String::new()),
        FakeReply::WithHeader(302, "Location", "http://127.0.0.1:1/".into(), String::new()),
        FakeReply::WithHeader(
            401,
            "Www-Authenticate",
            format!("{0}\r\nWww-Authenticate: {0}", realm("https://a")),
            String::new(),
        ),
        FakeReply::Flood,
    ] {
        let node = AcrNode::new();
        *node.challenge.lock().unwrap() = reply;
        let run = node.run(HOST);
        assert!(run.error().starts_with("error: failed to fetch password of foo.azurecr.io: "), "{run:?}");
        assert!(!run.stderr.contains("hunter2"));
        assert_eq!(node.paths(), ["/metadata/identity/oauth2/token", "/v2/"]);
    }
}

#[test]
fn reports_failed_exchange() {
    for (status, body, reason) in [
        (
            401,
            r#"{"errors":[{"code":"UNAUTHORIZED","message":"hunter2"}]}"#,
            "hint: the identity needs the role AcrPull",
        ),
        (500, "hunter2", "500 Internal Server Error"),
        (200, "<html>hunter2", "HTML instead of JSON"),
        (200, "{}", "JSON with missing or invalid fields"),
        (200, r#"{"refresh_token":""}"#, "empty token"),
    ] {
        let mut node = AcrNode::new();
        node.azure = FakeEndpoint::start(move |request| match &*request.path {
            "/v2/" => usual_challenge(),
            "/oauth2/exchange" => FakeReply::Status(status, body.into()),
            _ => FakeReply::Status(200, r#"{"access_token":"t","expires_in":"3600"}"#.into()),
        });
        node.sandbox.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", &node.azure.url);
        let run = node.run(HOST);
        assert!(run.error().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
    }
}

#[test]
fn reports_rejected_and_expired_identity() {
    for (status, body, reason) in [
        (
            400,
            r#"{"error":"invalid_request","error_description":"hunter2"}"#,
            "400 Bad Request (invalid_request)\nhint: check `userAssignedIdentityID`",
        ),
        (200, r#"{"access_token":"t","expires_in":"0"}"#, "expired at"),
        (200, "<html>hunter2", "HTML instead of JSON"),
    ] {
        let mut node = AcrNode::new();
        let imds = FakeEndpoint::start(move |_| FakeReply::Status(status, body.into()));
        node.sandbox.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", &imds.url);
        let run = node.run(HOST);
        assert!(run.error().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
        assert!(node.paths().is_empty());
    }
}

#[test]
fn silent_server_times_out() {
    let mut node = AcrNode::new();
    let silent = node.sandbox.silent_endpoint();
    node.sandbox.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", &silent.url);
    assert!(node.run(HOST).error().contains("timed out after 20 s"));
    let node = AcrNode::new();
    let silent = node.sandbox.silent_endpoint();
    let run = node.run_with("", HOST);
    run.response();
    let config = node.sandbox.file("azure.json", node.config.to_string());
    let run = node.sandbox.run_for(&format!("{} --endpoint {HOST}={}", config.display(), silent.url), HOST);
    assert!(run.error().contains("timed out after 15 s"), "{run:?}");
}

#[test]
fn reports_invalid_config_without_content() {
    let node = AcrNode::new();
    for text in ["", "hunter2", r#"{"aadClientSecret":"hunter2"#, r#"["hunter2"]"#, r#"{"tenantId":["hunter2"]}"#] {
        let path = node.sandbox.file("bad.json", text);
        let run = node.sandbox.run_for(path.to_str().unwrap(), HOST);
        assert!(run.error().contains("bad.json") && !run.stderr.contains("hunter2"), "{text}: {run:?}");
    }
    let missing = node.sandbox.home.path().join("missing.json");
    let run = node.sandbox.run_for(missing.to_str().unwrap(), HOST);
    assert!(run.error().contains("failed to read Azure configuration"), "{run:?}");
    for (line, reason) in
        [("", "<CONFIG>"), ("a b", "unexpected argument"), ("a --registry-mirror x", "SOURCE=REGISTRY")]
    {
        let run = node.sandbox.run_for(line, HOST);
        assert!(run.stdout.is_empty() && run.stderr.contains(reason), "{run:?}");
    }
    assert!(node.paths().is_empty());
}

#[test]
fn custom_cloud_from_resource_manager() {
    let mut node = AcrNode::new();
    let described = json!([{"name": "other"}, {"name": "Mine", "authentication": {"loginEndpoint": "https://id.my.cloud"},
        "suffixes": {"acrLoginServer": "azurecr.my.cloud"}}]);
    let arm = FakeEndpoint::start(move |_| FakeReply::Status(200, described.to_string()));
    node.config = json!({"cloud": "mine", "aadClientId": "sp", "aadClientSecret": "s",
        "resourceManagerEndpoint": format!("{}/", arm.url)});
    assert_eq!(node.run("foo.azurecr.my.cloud/x").auth().len(), 2);
    assert_eq!(node.run("foo.azurecr.my.cloud.evil.io/x").auth(), [""; 0]);
    assert_eq!(arm.seen()[0].path, "/metadata/endpoints?api-version=2019-05-01");
    let bad = FakeEndpoint::start(|_| FakeReply::Status(200, "<html>".into()));
    node.config["resourceManagerEndpoint"] = bad.url.clone().into();
    assert!(node.run(HOST).error().contains("failed to fetch endpoints of this cloud"));
}
