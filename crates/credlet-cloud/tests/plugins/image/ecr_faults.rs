use credlet_cloud::image::ecr;
use credlet_http::fetch::percent_encode;
use serde_json::json;

use super::ecr::{PRIVATE, node, usual};
use crate::support::{FakeEndpoint, FakeReply, ProviderSandbox};

const ARN: &str = "arn:aws:iam::123456789012:role/pull";
const ANNOTATION: &str = "eks.amazonaws.com/ecr-role-arn";

/// Starts an STS that returns keys which the leak check knows.
fn sts(sandbox: &mut ProviderSandbox) -> FakeEndpoint {
    let (key, token) = (sandbox.secret("lent key"), sandbox.secret("lent session token"));
    let sts = FakeEndpoint::start(move |_| {
        FakeReply::Status(
            200,
            format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                 <AccessKeyId>ASIALENT</AccessKeyId><SecretAccessKey>{key}</SecretAccessKey>\
                 <SessionToken>{token}</SessionToken><Expiration>2026-11-15T20:17:49Z</Expiration></Credentials>\
                 </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            ),
        )
    });
    sandbox.set("AWS_ENDPOINT_URL_STS", &sts.url);
    sts
}

#[test]
fn service_account_uses_its_role() {
    for image in [PRIVATE, "public.ecr.aws/x"] {
        let (mut sandbox, api, password) = node(usual());
        let sts = sts(&mut sandbox);
        let token = sandbox.set_account([(ANNOTATION, ARN)]);
        sandbox.set("AWS_ECR_ROLE_ARN", "arn:aws:iam::123456789012:role/other");
        let run = sandbox.run_for("", image);
        assert!(run.auth()[0].ends_with(&format!(" AWS:{password}")));
        let request = &sts.seen()[0];
        assert_eq!(request.field("Action"), "AssumeRoleWithWebIdentity");
        assert_eq!(request.field("RoleArn"), "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fpull");
        assert_eq!(request.field("RoleSessionName"), "ecr-credential-provider");
        assert_eq!(request.field("WebIdentityToken"), &**percent_encode(token.expose()));
        assert_eq!(request.header("authorization"), "");
        let request = &api.seen()[0];
        assert!(request.header("authorization").contains("Credential=ASIALENT/"));
        assert!(!request.header("x-amz-security-token").is_empty());
        // Nothing is stored on disk.
        assert_eq!(std::fs::read_dir(sandbox.home.path()).unwrap().count(), 0);
    }
}

#[test]
fn role_from_variable_or_custom_annotation() {
    let (mut sandbox, _api, _) = node(usual());
    let sts = sts(&mut sandbox);
    sandbox.set_account([("eks.amazonaws.com/role-arn", ARN)]);
    sandbox.set("AWS_ECR_ROLE_ARN", "arn:other");
    sandbox.run_for("", PRIVATE).response();
    sandbox.run_for("--role-annotation eks.amazonaws.com/role-arn", PRIVATE).response();
    let roles: Vec<_> = sts.seen().iter().map(|request| request.field("RoleArn").to_owned()).collect();
    assert_eq!(roles, ["arn%3Aother", "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fpull"]);
}

#[test]
fn service_account_token_must_be_jwt() {
    let (mut sandbox, api, _) = node(usual());
    let sts = sts(&mut sandbox);
    sandbox.set_account([(ANNOTATION, ARN)]);
    sandbox.token = Some("hunter2".into());
    let run = sandbox.run_for("", PRIVATE);
    assert!(run.error().contains("service account token is invalid: not a JSON web token"), "{run:?}");
    assert!(sts.seen().is_empty() && api.seen().is_empty() && !run.stderr.contains("hunter2"));
}

#[test]
fn node_credentials_without_role_or_token() {
    let (mut sandbox, api, _) = node(usual());
    let sts = sts(&mut sandbox);
    sandbox.annotations.insert(ANNOTATION.into(), ARN.into());
    sandbox.run_for("", PRIVATE).response();
    sandbox.set_account([]);
    sandbox.run_for("", PRIVATE).response();
    // An empty annotation takes precedence over the variable.
    sandbox.set_account([(ANNOTATION, "")]);
    sandbox.set("AWS_ECR_ROLE_ARN", ARN);
    sandbox.run_for("", PRIVATE).response();
    assert!(sts.seen().is_empty());
    assert!(api.seen().iter().all(|request| request.header("authorization").contains("Credential=AKIDEXAMPLE/")));
    assert_eq!(api.seen().len(), 3);
}

#[test]
fn denied_role_does_not_fall_back_to_node() {
    let (mut sandbox, api, _) = node(usual());
    let token = sandbox.set_account([(ANNOTATION, ARN)]);
    let echoed = token.expose().to_owned();
    let sts = FakeEndpoint::start(move |_| {
        FakeReply::Status(
            400,
            format!(
                "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>Token {echoed} expired</Message></Error></ErrorResponse>"
            ),
        )
    });
    sandbox.set("AWS_ENDPOINT_URL_STS", &sts.url);
    let run = sandbox.run_for("", PRIVATE);
    assert!(
        run.error()
            .contains(&format!("rejected the request for credentials of role {ARN}: ExpiredTokenException (Token ")),
        "{run:?}"
    );
    assert!(api.seen().is_empty());
}

#[test]
fn stores_nothing_on_disk() {
    let (_, api, _) = node(usual());
    let mut sandbox = ProviderSandbox::new(ecr::run);
    let sts = sts(&mut sandbox);
    sandbox.set("AWS_ENDPOINT_URL_ECR", &api.url);
    sandbox.file(".aws/config", format!("[default]\nrole_arn = {ARN}\nsource_profile = keys\n[profile keys]\naws_access_key_id = a\naws_secret_access_key = s\n"));
    sandbox.run_for("", PRIVATE).response();
    sandbox.run_for("", PRIVATE).response();
    assert_eq!(sts.seen().len(), 2);
    assert_eq!(std::fs::read_dir(sandbox.home.path()).unwrap().count(), 1);
}

#[test]
fn node_without_credentials_lists_sources() {
    let mut sandbox = ProviderSandbox::new(ecr::run);
    sandbox.set("AWS_EC2_METADATA_DISABLED", "true");
    let run = sandbox.run_for("", PRIVATE);
    assert!(run.error().starts_with("error: no AWS credentials found: AWS_ACCESS_KEY_ID is not set;"), "{run:?}");
}

/// Returns the error for this reply of the API.
#[track_caller]
fn said(answer: impl Fn() -> FakeReply + Send + Sync + 'static) -> String {
    let (mut sandbox, _, _) = node(usual());
    let api = FakeEndpoint::start(move |_| answer());
    sandbox.set("AWS_ENDPOINT_URL", &api.url);
    let run = sandbox.run_for("", PRIVATE);
    let refusal = run.error().to_owned();
    assert_eq!(api.seen().len(), 1, "request again: {refusal}");
    refusal
}

#[test]
fn rejects_invalid_api_responses() {
    for (body, reason) in [
        ("<html>hunter2</html>", "(status 200): HTML instead of JSON"),
        ("", "(status 200): empty body"),
        ("{}", "(status 200): JSON with missing or invalid fields"),
        (r#"{"authorizationData":[]}"#, "(status 200): it has no token"),
        (r#"{"authorizationData":[{"expiresAt":1}]}"#, "(status 200): JSON with missing or invalid fields"),
        (r#"{"authorizationData":[{"authorizationToken":"!"}]}"#, "invalid authorization token of ECR"),
        // Without a colon; with an empty password; not UTF-8.
        (r#"{"authorizationData":[{"authorizationToken":"QVdT"}]}"#, "invalid authorization token of ECR"),
        (r#"{"authorizationData":[{"authorizationToken":"QVdTOg=="}]}"#, "invalid authorization token of ECR"),
        (r#"{"authorizationData":[{"authorizationToken":"QTr/"}]}"#, "invalid authorization token of ECR"),
    ] {
        let said = said(move || FakeReply::Status(200, body.into()));
        assert!(said.contains(reason) && !said.contains("hunter2"), "{body}: {said}");
    }
}

#[test]
fn rejected_request_has_hint() {
    let refusal = json!({"__type": "com.amazon.coral#AccessDeniedException", "Message": "User x may not"}).to_string();
    let said = said(move || FakeReply::Status(400, refusal.clone()));
    assert!(
        said.contains(
            "rejected the request for password of the registries in eu-west-3: AccessDeniedException (User x may not)\nhint: "
        ),
        "{said}"
    );
    assert!(said.contains("ecr:GetAuthorizationToken"), "{said}");
}

#[test]
fn does_not_follow_api_redirects() {
    let other = FakeEndpoint::start(|_| FakeReply::Status(200, "{}".into()));
    let elsewhere = other.url.clone();
    let said = said(move || FakeReply::WithHeader(307, "Location", elsewhere.clone(), String::new()));
    assert!(said.contains("refused to follow a redirect"), "{said}");
    assert!(other.seen().is_empty());
}

#[test]
fn limits_api_response_size() {
    let said = said(|| FakeReply::Flood);
    assert!(said.contains("exceeds 1024 KiB"), "{said}");
}

#[test]
fn api_request_times_out() {
    let (mut sandbox, _, _) = node(usual());
    let api = sandbox.silent_endpoint();
    sandbox.set("AWS_ENDPOINT_URL", &api.url);
    let run = sandbox.run_for("", PRIVATE);
    assert!(run.error().contains("timed out after 15 s"), "{run:?}");
}

#[test]
fn throttling_is_retried_twice() {
    let (mut sandbox, _, _) = node(usual());
    sandbox.use_system_clock();
    let busy = || FakeReply::Status(400, r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#.into());
    let api = FakeEndpoint::start(move |_| busy());
    sandbox.set("AWS_ENDPOINT_URL", &api.url);
    let run = sandbox.run_for("", PRIVATE);
    assert!(run.error().contains("ThrottlingException (Rate exceeded)"), "{run:?}");
    assert_eq!(api.seen().len(), 3);
}

#[test]
fn retries_server_error() {
    let (mut sandbox, _, _) = node(usual());
    sandbox.use_system_clock();
    let times = std::sync::atomic::AtomicUsize::new(0);
    let api = FakeEndpoint::start(move |_| match times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => FakeReply::Status(503, "<html>busy</html>".into()),
        _ => FakeReply::Status(200, r#"{"authorizationData":[{"authorizationToken":"QVdTOnB3"}]}"#.into()),
    });
    sandbox.set("AWS_ENDPOINT_URL", &api.url);
    assert_eq!(sandbox.run_for("", PRIVATE).auth(), [format!("{PRIVATE} AWS:pw")]);
    assert_eq!(api.seen().len(), 2);
}

#[test]
fn rejects_invalid_requests() {
    let (sandbox, api, _) = node(usual());
    let kind = r#""kind":"CredentialProviderRequest""#;
    for (stdin, reason) in [
        (String::new(), "standard input is empty"),
        ("hunter2".into(), "invalid request: not an object"),
        (format!(r#"{{{kind},"apiVersion":"credentialprovider.kubelet.k8s.io/v2","image":"x"}}"#), "apiVersion"),
        (format!(r#"{{{kind},"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":""}}"#), "missing image"),
        (format!(r#"{{{kind},"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"/x"}}"#), "missing image"),
    ] {
        let run = sandbox.run_with_stdin("", stdin.as_bytes());
        assert!(run.error().contains(reason) && !run.stderr.contains("hunter2"), "{stdin}: {run:?}");
    }
    assert!(api.seen().is_empty());
}
