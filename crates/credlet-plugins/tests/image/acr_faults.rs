use serde_json::{Value, json};

use crate::acr::{HOST, Node, usual_challenge};
use crate::peer::{Peer, Reply};

#[test]
fn a_password_is_remembered_by_its_end_and_not_at_all_without_one() {
    for (at, expected) in [(json!(1_794_770_279), "5s"), (json!(9_000_000_000_i64), "12h0m0s"), (Value::Null, "0s")] {
        assert_eq!(Node::with_end(&at).ask(HOST).remembered(), expected, "{at}");
    }
    let run = Node::with_end(&json!(1_794_770_000)).ask(HOST);
    assert!(run.refusal().contains("the password of foo.azurecr.io expired at"), "{run:?}");
}

#[test]
fn a_registry_that_is_none_gets_no_token() {
    let realm = |realm: &str| format!(r#"Bearer realm="{realm}",service="{HOST}""#);
    for reply in [
        Reply::Answer(200, "{}".into()),
        Reply::Answer(401, String::new()),
        Reply::Answer(404, "<html>hunter2</html>".into()),
        Reply::With(401, "Www-Authenticate", r#"Basic realm="x""#.into(), String::new()),
        Reply::With(401, "Www-Authenticate", "Bearer realm=".into(), String::new()),
        Reply::With(401, "Www-Authenticate", r#"Bearer realm="x,service=y"#.into(), String::new()),
        Reply::With(302, "Location", "http://127.0.0.1:1/".into(), String::new()),
        Reply::With(
            401,
            "Www-Authenticate",
            format!("{0}\r\nWww-Authenticate: {0}", realm("https://a")),
            String::new(),
        ),
        Reply::Flood,
    ] {
        let node = Node::new();
        *node.challenge.lock().unwrap() = reply;
        let run = node.ask(HOST);
        assert!(run.refusal().starts_with("error: the password of foo.azurecr.io cannot be had: "), "{run:?}");
        assert!(!run.stderr.contains("hunter2"));
        assert_eq!(node.paths(), ["/metadata/identity/oauth2/token", "/v2/"]);
    }
}

#[test]
fn an_exchange_that_fails_is_told() {
    for (status, body, reason) in [
        (
            401,
            r#"{"errors":[{"code":"UNAUTHORIZED","message":"hunter2"}]}"#,
            "hint: the identity needs the role AcrPull",
        ),
        (500, "hunter2", "500 Internal Server Error"),
        (200, "<html>hunter2", "a web page instead of JSON"),
        (200, "{}", "lacks what belongs in it"),
        (200, r#"{"refresh_token":""}"#, "an empty token"),
    ] {
        let mut node = Node::new();
        node.azure = Peer::start(move |asked| match &*asked.path {
            "/v2/" => usual_challenge(),
            "/oauth2/exchange" => Reply::Answer(status, body.into()),
            _ => Reply::Answer(200, r#"{"access_token":"t","expires_in":"3600"}"#.into()),
        });
        node.stage.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", &node.azure.url);
        let run = node.ask(HOST);
        assert!(run.refusal().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
    }
}

#[test]
fn an_identity_that_is_refused_or_over_is_told() {
    for (status, body, reason) in [
        (
            400,
            r#"{"error":"invalid_request","error_description":"hunter2"}"#,
            "400 Bad Request (invalid_request)\nhint: see `userAssignedIdentityID`",
        ),
        (200, r#"{"access_token":"t","expires_in":"0"}"#, "expired at"),
        (200, "<html>hunter2", "a web page instead of JSON"),
    ] {
        let mut node = Node::new();
        let imds = Peer::start(move |_| Reply::Answer(status, body.into()));
        node.stage.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", &imds.url);
        let run = node.ask(HOST);
        assert!(run.refusal().contains(reason) && !run.stderr.contains("hunter2"), "{run:?}");
        assert!(node.paths().is_empty());
    }
}

#[test]
fn whoever_says_nothing_is_given_up() {
    let mut node = Node::new();
    let silent = node.stage.silent_peer();
    node.stage.set("AZURE_POD_IDENTITY_AUTHORITY_HOST", &silent.url);
    assert!(node.ask(HOST).refusal().contains("did not answer within 20 s"));
    let node = Node::new();
    let silent = node.stage.silent_peer();
    let run = node.ask_with("", HOST);
    run.answer();
    let config = node.stage.file("azure.json", &node.config.to_string());
    let run = node.stage.ask(&format!("{} --endpoint {HOST}={}", config.display(), silent.url), HOST);
    assert!(run.refusal().contains("did not answer within 15 s"), "{run:?}");
}

#[test]
fn a_configuration_that_is_none_is_told_without_its_content() {
    let node = Node::new();
    for text in ["", "hunter2", r#"{"aadClientSecret":"hunter2"#, r#"["hunter2"]"#, r#"{"tenantId":["hunter2"]}"#] {
        let path = node.stage.file("bad.json", text);
        let run = node.stage.ask(path.to_str().unwrap(), HOST);
        assert!(run.refusal().contains("bad.json ") && !run.stderr.contains("hunter2"), "{text}: {run:?}");
    }
    let missing = node.stage.home.path().join("missing.json");
    let run = node.stage.ask(missing.to_str().unwrap(), HOST);
    assert!(run.refusal().contains("the configuration for Azure cannot be read from"), "{run:?}");
    for (line, reason) in
        [("", "<CONFIG>"), ("a b", "unexpected argument"), ("a --registry-mirror x", "SOURCE=REGISTRY")]
    {
        let run = node.stage.ask(line, HOST);
        assert!(run.stdout.is_empty() && run.stderr.contains(reason), "{run:?}");
    }
    assert!(node.paths().is_empty());
}

#[test]
fn a_cloud_of_ones_own_is_described_by_its_resource_manager() {
    let mut node = Node::new();
    let described = json!([{"name": "other"}, {"name": "Mine", "authentication": {"loginEndpoint": "https://id.my.cloud"},
        "suffixes": {"acrLoginServer": "azurecr.my.cloud"}}]);
    let arm = Peer::start(move |_| Reply::Answer(200, described.to_string()));
    node.config = json!({"cloud": "mine", "aadClientId": "sp", "aadClientSecret": "s",
        "resourceManagerEndpoint": format!("{}/", arm.url)});
    assert_eq!(node.ask("foo.azurecr.my.cloud/x").auth().len(), 2);
    assert_eq!(node.ask("foo.azurecr.my.cloud.evil.io/x").auth(), [""; 0]);
    assert_eq!(arm.seen()[0].path, "/metadata/endpoints?api-version=2019-05-01");
    let bad = Peer::start(|_| Reply::Answer(200, "<html>".into()));
    node.config["resourceManagerEndpoint"] = bad.url.clone().into();
    assert!(node.ask(HOST).refusal().contains("the addresses of this cloud cannot be had"));
}
