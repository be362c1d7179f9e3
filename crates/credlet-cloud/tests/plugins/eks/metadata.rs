use std::sync::Arc;

use credlet_exec::SystemClock;

use crate::support::{FakeEndpoint, FakeReply, Sandbox, watched_jwt};

const LENT: &str = r#"{"Code":"Success","AccessKeyId":"AKPLACE","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-15T19:25:00Z"}"#;

#[test]
fn container_endpoint_with_token() {
    let mut sandbox = Sandbox::new();
    let token = watched_jwt(&sandbox.watch, "{}");
    let agent = FakeEndpoint::start(|_| FakeReply::Status(200, LENT.into()));
    sandbox.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/v1/credentials", agent.url));
    sandbox.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "another");
    let path = sandbox.file("token", format!("{}\n", token.expose()));
    sandbox.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path.to_str().unwrap());
    let run = sandbox.eks("-i demo");
    assert_eq!(run.access_key_id(), "AKPLACE");
    assert_eq!(run.expires(), "2026-11-15T19:25:00Z");
    let request = &agent.seen()[0];
    assert_eq!((&*request.path, request.header("authorization")), ("/v1/credentials", token.expose()));
}

#[test]
fn no_container_token_over_remote_http() {
    for url in ["http://10.0.0.1/x", "http://agent.example/x"] {
        let run = Sandbox::new()
            .var("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
            .var("AWS_CONTAINER_AUTHORIZATION_TOKEN", "t")
            .eks("-i x");
        assert!(run.error().contains("refused to send credentials to"), "{}", run.stderr);
    }
    // The relative URI must not change the host.
    for path in ["@evil.example/", ".evil.example/"] {
        let run = Sandbox::new().var("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", path).eks("-i x");
        assert!(run.error().contains("failed to fetch container credentials"), "{}", run.stderr);
    }
}

#[test]
fn container_redirect_on_same_server_only() {
    let mut sandbox = Sandbox::new().var("AWS_CONTAINER_AUTHORIZATION_TOKEN", "some-container-token");
    let other = FakeEndpoint::start(|_| FakeReply::Status(200, LENT.into()));
    let elsewhere = other.url.clone();
    let agent = FakeEndpoint::start(move |request| match &*request.path {
        "/moved" => FakeReply::WithHeader(307, "Location", "/here".into(), String::new()),
        "/gone" => FakeReply::WithHeader(307, "Location", format!("{elsewhere}/here"), String::new()),
        "/circle" => FakeReply::WithHeader(307, "Location", "/circle".into(), String::new()),
        _ => FakeReply::Status(200, LENT.into()),
    });
    sandbox.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/moved", agent.url));
    assert_eq!(sandbox.eks("-i demo").access_key_id(), "AKPLACE");
    assert_eq!(agent.seen()[1].header("authorization"), "some-container-token");
    for path in ["/gone", "/circle"] {
        sandbox.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}{path}", agent.url));
        assert!(sandbox.eks("-i demo").error().contains("refused to follow a redirect"), "{path}");
    }
    assert!(other.seen().is_empty());
}

fn machine(sandbox: &mut Sandbox, answer: impl Fn(&str) -> FakeReply + Send + Sync + 'static) -> FakeEndpoint {
    let service = FakeEndpoint::start(move |request| match (&*request.method, &*request.path) {
        ("PUT", "/latest/api/token") => FakeReply::Status(200, "imds-token".into()),
        (_, path) => answer(path),
    });
    sandbox.set("AWS_EC2_METADATA_DISABLED", "false");
    sandbox.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("{}/", service.url));
    service
}

#[test]
fn instance_role_is_last_source() {
    let mut sandbox = Sandbox::new();
    let service = machine(&mut sandbox, |path| match path {
        "/latest/meta-data/iam/security-credentials/" => FakeReply::Status(200, "node-role\n".into()),
        "/latest/meta-data/iam/security-credentials/node-role" => FakeReply::Status(200, LENT.into()),
        _ => FakeReply::Status(404, String::new()),
    });
    assert_eq!(sandbox.eks("-i demo").access_key_id(), "AKPLACE");
    let seen = service.seen();
    assert_eq!(seen[0].header("x-aws-ec2-metadata-token-ttl-seconds"), "60");
    assert!(seen[1..].iter().all(|request| request.header("x-aws-ec2-metadata-token") == "imds-token"));
    // Other sources take precedence.
    assert_eq!(sandbox.keys().eks("-i demo").access_key_id(), "AKIDEXAMPLE");
    assert_eq!(service.seen().len(), 3);
}

#[test]
fn reports_missing_role_and_invalid_imds() {
    let mut sandbox = Sandbox::new();
    let _none = machine(&mut sandbox, |_| FakeReply::Status(404, String::new()));
    assert!(sandbox.eks("-i demo").error().contains("; this EC2 instance has no role\nhint: select a profile"));
    let _page = machine(&mut sandbox, |path| match path.ends_with('/') {
        true => FakeReply::Status(200, "role".into()),
        false => FakeReply::Status(200, "<html>hunter2</html>".into()),
    });
    let run = sandbox.eks("-i demo");
    assert!(run.error().contains("(status 200): HTML instead of JSON\nhint: check whether a proxy"), "{run:?}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    sandbox.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://{nobody}"));
    assert!(sandbox.eks("-i demo").error().contains("; not running on EC2\n"));
}

#[test]
fn imds_times_out() {
    let mut sandbox = Sandbox::new();
    // The timeout is one second of real time.
    sandbox.clock = Arc::new(SystemClock::new());
    let _silent = machine(&mut sandbox, |_| FakeReply::Silence);
    assert!(sandbox.eks("-i demo").error().contains("; not running on EC2\n"));
}
