use credlet_plugins::image::ecr;
use credlet_plugins::web::escaped;
use serde_json::json;

use crate::ecr::{PRIVATE, node, usual};
use crate::peer::{Peer, Reply};
use crate::support::Stage;

const ARN: &str = "arn:aws:iam::123456789012:role/pull";
const ANNOTATION: &str = "eks.amazonaws.com/ecr-role-arn";

/// An STS that lends keys until then, and a secret key and a session token that are watched.
fn sts(stage: &mut Stage) -> Peer {
    let (key, token) = (stage.secret("lent key"), stage.secret("lent session token"));
    let sts = Peer::start(move |_| {
        Reply::Answer(
            200,
            format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                 <AccessKeyId>ASIALENT</AccessKeyId><SecretAccessKey>{key}</SecretAccessKey>\
                 <SessionToken>{token}</SessionToken><Expiration>2026-11-15T20:17:49Z</Expiration></Credentials>\
                 </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            ),
        )
    });
    stage.set("AWS_ENDPOINT_URL_STS", &sts.url);
    sts
}

#[test]
fn a_service_account_pulls_with_the_role_that_it_names() {
    for image in [PRIVATE, "public.ecr.aws/x"] {
        let (mut stage, api, password) = node(usual());
        let sts = sts(&mut stage);
        let token = stage.account([(ANNOTATION, ARN)]);
        stage.set("AWS_ECR_ROLE_ARN", "arn:aws:iam::123456789012:role/other");
        let run = stage.ask("", image);
        assert!(run.auth()[0].ends_with(&format!(" AWS:{password}")));
        let asked = &sts.seen()[0];
        assert_eq!(asked.field("Action"), "AssumeRoleWithWebIdentity");
        assert_eq!(asked.field("RoleArn"), "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fpull");
        assert_eq!(asked.field("RoleSessionName"), "ecr-credential-provider");
        assert_eq!(asked.field("WebIdentityToken"), &**escaped(token.expose()));
        assert_eq!(asked.header("authorization"), "");
        let asked = &api.seen()[0];
        assert!(asked.header("authorization").contains("Credential=ASIALENT/"));
        assert!(!asked.header("x-amz-security-token").is_empty());
        // Nothing of it stays on the node's disk.
        assert_eq!(std::fs::read_dir(stage.home.path()).unwrap().count(), 0);
    }
}

#[test]
fn the_role_may_come_from_the_variable_or_another_annotation() {
    let (mut stage, _api, _) = node(usual());
    let sts = sts(&mut stage);
    stage.account([("eks.amazonaws.com/role-arn", ARN)]);
    stage.set("AWS_ECR_ROLE_ARN", "arn:other");
    stage.ask("", PRIVATE).answer();
    stage.ask("--role-annotation eks.amazonaws.com/role-arn", PRIVATE).answer();
    let roles: Vec<_> = sts.seen().iter().map(|asked| asked.field("RoleArn").to_owned()).collect();
    assert_eq!(roles, ["arn%3Aother", "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fpull"]);
}

#[test]
fn without_a_role_or_without_a_token_the_node_pulls_with_its_own() {
    let (mut stage, api, _) = node(usual());
    let sts = sts(&mut stage);
    stage.annotations.insert(ANNOTATION.into(), ARN.into());
    stage.ask("", PRIVATE).answer();
    stage.account([]);
    stage.ask("", PRIVATE).answer();
    // An empty annotation goes before the variable.
    stage.account([(ANNOTATION, "")]);
    stage.set("AWS_ECR_ROLE_ARN", ARN);
    stage.ask("", PRIVATE).answer();
    assert!(sts.seen().is_empty());
    assert!(api.seen().iter().all(|asked| asked.header("authorization").contains("Credential=AKIDEXAMPLE/")));
    assert_eq!(api.seen().len(), 3);
}

#[test]
fn a_role_that_is_refused_is_a_failure_and_the_nodes_own_is_not_used_instead() {
    let (mut stage, api, _) = node(usual());
    let token = stage.account([(ANNOTATION, ARN)]);
    let echoed = token.expose().to_owned();
    let sts = Peer::start(move |_| {
        Reply::Answer(
            400,
            format!(
                "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>Token {echoed} expired</Message></Error></ErrorResponse>"
            ),
        )
    });
    stage.set("AWS_ENDPOINT_URL_STS", &sts.url);
    let run = stage.ask("", PRIVATE);
    assert!(run.refusal().contains(&format!("refused the role {ARN}: ExpiredTokenException (Token ")), "{run:?}");
    assert!(api.seen().is_empty());
}

#[test]
fn a_nodes_role_is_not_kept_on_its_disk() {
    let (_, api, _) = node(usual());
    let mut stage = Stage::new(ecr::run);
    let sts = sts(&mut stage);
    stage.set("AWS_ENDPOINT_URL_ECR", &api.url);
    stage.file(".aws/config", &format!("[default]\nrole_arn = {ARN}\nsource_profile = keys\n[profile keys]\naws_access_key_id = a\naws_secret_access_key = s\n"));
    stage.ask("", PRIVATE).answer();
    stage.ask("", PRIVATE).answer();
    assert_eq!(sts.seen().len(), 2);
    assert_eq!(std::fs::read_dir(stage.home.path()).unwrap().count(), 1);
}

#[test]
fn a_node_without_credentials_says_where_it_looked() {
    let mut stage = Stage::new(ecr::run);
    stage.set("AWS_EC2_METADATA_DISABLED", "true");
    let run = stage.ask("", PRIVATE);
    assert!(run.refusal().starts_with("error: there are no AWS credentials: AWS_ACCESS_KEY_ID is not set;"), "{run:?}");
}

/// What is said when the API answers so.
#[track_caller]
fn said(answer: impl Fn() -> Reply + Send + Sync + 'static) -> String {
    let (mut stage, _, _) = node(usual());
    let api = Peer::start(move |_| answer());
    stage.set("AWS_ENDPOINT_URL", &api.url);
    let run = stage.ask("", PRIVATE);
    let refusal = run.refusal().to_owned();
    assert_eq!(api.seen().len(), 1, "asked again: {refusal}");
    refusal
}

#[test]
fn an_api_that_answers_something_else_is_a_failure() {
    for (body, reason) in [
        ("<html>hunter2</html>", "answered 200 with something that is a web page instead of JSON"),
        ("", "answered 200 with something that is empty"),
        ("{}", "answered 200 with something that lacks what belongs in it"),
        (r#"{"authorizationData":[]}"#, "answered 200 with something that has no token in it"),
        (r#"{"authorizationData":[{"expiresAt":1}]}"#, "answered 200 with something that lacks what belongs in it"),
        (r#"{"authorizationData":[{"authorizationToken":"!"}]}"#, "is not a user's name and a password"),
        // A user without a colon; one with an empty password; what is no text.
        (r#"{"authorizationData":[{"authorizationToken":"QVdT"}]}"#, "is not a user's name and a password"),
        (r#"{"authorizationData":[{"authorizationToken":"QVdTOg=="}]}"#, "is not a user's name and a password"),
        (r#"{"authorizationData":[{"authorizationToken":"QTr/"}]}"#, "is not a user's name and a password"),
    ] {
        let said = said(move || Reply::Answer(200, body.into()));
        assert!(said.contains(reason) && !said.contains("hunter2"), "{body}: {said}");
    }
}

#[test]
fn an_api_that_refuses_is_told_with_what_to_do() {
    let refusal = json!({"__type": "com.amazon.coral#AccessDeniedException", "Message": "User x may not"}).to_string();
    let said = said(move || Reply::Answer(400, refusal.clone()));
    assert!(
        said.contains(
            "refused the password of the registries in eu-west-3: AccessDeniedException (User x may not)\nhint: "
        ),
        "{said}"
    );
    assert!(said.contains("ecr:GetAuthorizationToken"), "{said}");
}

#[test]
fn an_api_that_sends_us_elsewhere_is_not_followed() {
    let other = Peer::start(|_| Reply::Answer(200, "{}".into()));
    let elsewhere = other.url.clone();
    let said = said(move || Reply::With(307, "Location", elsewhere.clone(), String::new()));
    assert!(said.contains("sends us to another place"), "{said}");
    assert!(other.seen().is_empty());
}

#[test]
fn an_api_that_sends_more_than_anybody_can_use_is_cut_off() {
    let said = said(|| Reply::Flood);
    assert!(said.contains("is larger than 1024 KiB"), "{said}");
}

#[test]
fn an_api_that_says_nothing_is_given_up() {
    let (mut stage, _, _) = node(usual());
    let api = stage.silent_peer();
    stage.set("AWS_ENDPOINT_URL", &api.url);
    let run = stage.ask("", PRIVATE);
    assert!(run.refusal().contains("did not answer within 15 s"), "{run:?}");
}

#[test]
fn an_api_that_is_busy_is_asked_again_and_given_up_after_the_third_time() {
    let (mut stage, _, _) = node(usual());
    stage.real_time();
    let busy = || Reply::Answer(400, r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#.into());
    let api = Peer::start(move |_| busy());
    stage.set("AWS_ENDPOINT_URL", &api.url);
    let run = stage.ask("", PRIVATE);
    assert!(run.refusal().contains("ThrottlingException (Rate exceeded)"), "{run:?}");
    assert_eq!(api.seen().len(), 3);
}

#[test]
fn an_api_that_comes_back_gives_its_answer() {
    let (mut stage, _, _) = node(usual());
    stage.real_time();
    let times = std::sync::atomic::AtomicUsize::new(0);
    let api = Peer::start(move |_| match times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Reply::Answer(503, "<html>busy</html>".into()),
        _ => Reply::Answer(200, r#"{"authorizationData":[{"authorizationToken":"QVdTOnB3"}]}"#.into()),
    });
    stage.set("AWS_ENDPOINT_URL", &api.url);
    assert_eq!(stage.ask("", PRIVATE).auth(), [format!("{PRIVATE} AWS:pw")]);
    assert_eq!(api.seen().len(), 2);
}

#[test]
fn a_request_that_is_none_is_refused() {
    let (stage, api, _) = node(usual());
    let kind = r#""kind":"CredentialProviderRequest""#;
    for (stdin, reason) in [
        (String::new(), "standard input is empty"),
        ("hunter2".into(), "the request "),
        (format!(r#"{{{kind},"apiVersion":"credentialprovider.kubelet.k8s.io/v2","image":"x"}}"#), "apiVersion"),
        (format!(r#"{{{kind},"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":""}}"#), "names no image"),
        (format!(r#"{{{kind},"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"/x"}}"#), "names no image"),
    ] {
        let run = stage.ask_with("", stdin.as_bytes());
        assert!(run.refusal().contains(reason) && !run.stderr.contains("hunter2"), "{stdin}: {run:?}");
    }
    assert!(api.seen().is_empty());
}
