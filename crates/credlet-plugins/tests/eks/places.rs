use std::sync::Arc;

use credlet_core::SystemClock;

use crate::support::{Peer, Reply, Stage};

const LENT: &str = r#"{"Code":"Success","AccessKeyId":"AKPLACE","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-15T19:25:00Z"}"#;

#[test]
fn a_container_gives_credentials_to_who_has_its_token() {
    let mut stage = Stage::new();
    let token = stage.watch.secret("container token");
    let agent = Peer::start(|_| Reply::Answer(200, LENT.into()));
    stage.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/v1/credentials", agent.url));
    stage.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "another");
    let path = stage.file("token", &format!("{}\n", token.expose()));
    stage.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path.to_str().unwrap());
    let run = stage.run("-i demo");
    assert_eq!(run.signer(), "AKPLACE");
    assert_eq!(run.status().expiration_timestamp.unwrap().to_string(), "2026-11-15T19:25:00Z");
    let asked = &agent.seen()[0];
    assert_eq!((&*asked.path, asked.header("authorization")), ("/v1/credentials", token.expose()));
}

#[test]
fn a_containers_token_goes_to_no_other_place_in_the_clear() {
    for url in ["http://10.0.0.1/x", "http://agent.example/x"] {
        let run = Stage::new()
            .var("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
            .var("AWS_CONTAINER_AUTHORIZATION_TOKEN", "t")
            .run("-i x");
        assert!(run.refusal().contains("is asked for over http, which would show credentials"), "{}", run.stderr);
    }
    // What follows the address of the container's agent must not become another address.
    for path in ["@evil.example/", ".evil.example/"] {
        let run = Stage::new().var("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", path).run("-i x");
        assert!(run.refusal().contains("the container's credentials cannot be had"), "{}", run.stderr);
    }
}

#[test]
fn a_container_that_has_moved_is_followed_on_the_same_server_only() {
    let mut stage = Stage::new().var("AWS_CONTAINER_AUTHORIZATION_TOKEN", "some-container-token");
    let other = Peer::start(|_| Reply::Answer(200, LENT.into()));
    let elsewhere = other.url.clone();
    let agent = Peer::start(move |asked| match &*asked.path {
        "/moved" => Reply::With(307, "Location", "/here".into(), String::new()),
        "/gone" => Reply::With(307, "Location", format!("{elsewhere}/here"), String::new()),
        "/circle" => Reply::With(307, "Location", "/circle".into(), String::new()),
        _ => Reply::Answer(200, LENT.into()),
    });
    stage.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/moved", agent.url));
    assert_eq!(stage.run("-i demo").signer(), "AKPLACE");
    assert_eq!(agent.seen()[1].header("authorization"), "some-container-token");
    for path in ["/gone", "/circle"] {
        stage.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}{path}", agent.url));
        assert!(stage.run("-i demo").refusal().contains("sends us to another place"), "{path}");
    }
    assert!(other.seen().is_empty());
}

fn machine(stage: &mut Stage, answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Peer {
    let service = Peer::start(move |asked| match (&*asked.method, &*asked.path) {
        ("PUT", "/latest/api/token") => Reply::Answer(200, "imds-token".into()),
        (_, path) => answer(path),
    });
    stage.set("AWS_EC2_METADATA_DISABLED", "false");
    stage.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("{}/", service.url));
    service
}

#[test]
fn a_machine_gives_credentials_when_nothing_else_does() {
    let mut stage = Stage::new();
    let service = machine(&mut stage, |path| match path {
        "/latest/meta-data/iam/security-credentials/" => Reply::Answer(200, "node-role\n".into()),
        "/latest/meta-data/iam/security-credentials/node-role" => Reply::Answer(200, LENT.into()),
        _ => Reply::Answer(404, String::new()),
    });
    assert_eq!(stage.run("-i demo").signer(), "AKPLACE");
    let seen = service.seen();
    assert_eq!(seen[0].header("x-aws-ec2-metadata-token-ttl-seconds"), "60");
    assert!(seen[1..].iter().all(|asked| asked.header("x-aws-ec2-metadata-token") == "imds-token"));
    // It is the last to be asked.
    assert_eq!(stage.keys().run("-i demo").signer(), "AKIDEXAMPLE");
    assert_eq!(service.seen().len(), 3);
}

#[test]
fn a_machine_without_a_role_or_with_a_service_that_is_none_is_told() {
    let mut stage = Stage::new();
    let _none = machine(&mut stage, |_| Reply::Answer(404, String::new()));
    assert!(stage.run("-i demo").refusal().contains("; this EC2 machine has no role\nhint: name a profile"));
    let _page = machine(&mut stage, |path| match path.ends_with('/') {
        true => Reply::Answer(200, "role".into()),
        false => Reply::Answer(200, "<html>hunter2</html>".into()),
    });
    let run = stage.run("-i demo");
    assert!(
        run.refusal().contains("answered 200 with something that is a web page instead of JSON\nhint: a proxy"),
        "{run:?}"
    );
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    stage.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://{nobody}"));
    assert!(stage.run("-i demo").refusal().contains("; this is no EC2 machine\n"));
}

#[test]
fn a_machines_service_that_does_not_answer_is_given_up() {
    let mut stage = Stage::new();
    // Its limit is a second of real time.
    stage.clock = Arc::new(SystemClock::new());
    let _silent = machine(&mut stage, |_| Reply::Silence);
    assert!(stage.run("-i demo").refusal().contains("; this is no EC2 machine\n"));
}
