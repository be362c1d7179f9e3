use crate::support::{FakeEndpoint, FakeReply, Sandbox};

const CONFIG: &str = "[profile x]\nsso_session = corp\nsso_account_id = 111122223333\nsso_role_name = dev ops\n\
    [sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example/start\n\
    [profile old]\nsso_account_id = 1\nsso_role_name = r\nsso_region = eu-west-1\nsso_start_url = https://corp.example/start\n";

fn sandbox() -> Sandbox {
    Sandbox::new().config(CONFIG)
}

fn session_file() -> String {
    format!(".aws/sso/cache/{}.json", sha1("corp"))
}

fn sha1(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    credlet_api::hex(digest)
}

fn given(secret: &str) -> FakeReply {
    let expiration = 1_794_773_869_000_i64;
    FakeReply::Status(
        200,
        format!(
            r#"{{"roleCredentials":{{"accessKeyId":"AKSSO","secretAccessKey":"{secret}","sessionToken":"t","expiration":{expiration}}}}}"#
        ),
    )
}

#[test]
fn missing_or_expired_login_has_hint() {
    for (file, told) in [
        (None, "is missing"),
        (Some(r#"{"accessToken":"hunter2","expiresAt":"2026-11-15T19:00:00Z"}"#), "has expired"),
        (Some(r#"{"accessToken":"hunter2","expiresAt":"2026-11-15T19:00:00UTC"}"#), "has expired"),
        (Some(r#"{"accessToken":"hunter2"}"#), "has expired"),
        (Some("hunter2"), "has an invalid token file"),
    ] {
        let sandbox = sandbox();
        if let Some(text) = file {
            sandbox.file(&session_file(), text);
        }
        let run = sandbox.eks("-i demo --profile x");
        assert_eq!(
            run.error(),
            format!("error: SSO login of AWS profile `x` {told}\nhint: log in with `aws sso login --profile x`\n")
        );
    }
}

#[test]
fn caches_role_until_logout() {
    let mut sandbox = sandbox();
    let (token, secret) = (sandbox.watch.secret("access token"), sandbox.watch.secret("secret"));
    let portal = FakeEndpoint::start(move |_| given(secret.expose()));
    sandbox.set("AWS_ENDPOINT_URL_SSO", &*portal.url);
    let login = format!(r#"{{"accessToken":"{}","expiresAt":"2026-11-15T23:00:00Z","startUrl":"s"}}"#, token.expose());
    let file = sandbox.file(&session_file(), &login);
    sandbox.file(&format!(".aws/sso/cache/{}.json", sha1("https://corp.example/start")), &login);
    assert_eq!(sandbox.eks("-i demo --profile x").access_key_id(), "AKSSO");
    assert_eq!(portal.seen()[0].path, "/federation/credentials?role_name=dev%20ops&account_id=111122223333");
    assert_eq!(portal.seen()[0].header("x-amz-sso_bearer_token"), token.expose());
    assert_eq!(sandbox.eks("-i demo --profile x").access_key_id(), "AKSSO");
    assert_eq!(portal.seen().len(), 1);
    assert_eq!(sandbox.eks("-i demo --profile old").access_key_id(), "AKSSO");
    std::fs::remove_file(file).unwrap();
    assert!(sandbox.eks("-i demo --profile x").error().contains("is missing"));
}

#[test]
fn refreshes_and_stores_token_for_awscli() {
    let mut sandbox = sandbox();
    let (refresh, new, secret) =
        (sandbox.watch.secret("refresh"), sandbox.watch.secret("new"), sandbox.watch.secret("client"));
    let (given_new, sent) = (new.clone(), refresh.clone());
    let issuer = FakeEndpoint::start(move |request| {
        assert!(request.body.contains(sent.expose()) && request.body.contains(r#""grantType":"refresh_token""#));
        FakeReply::Status(
            200,
            format!(
                r#"{{"accessToken":"{}","expiresIn":3600,"refreshToken":"next-refresh-token"}}"#,
                given_new.expose()
            ),
        )
    });
    let portal = FakeEndpoint::start(|_| given("s"));
    sandbox.set("AWS_ENDPOINT_URL_SSO", &*portal.url);
    sandbox.set("AWS_ENDPOINT_URL_SSO_OIDC", &*issuer.url);
    let file = sandbox.file(&session_file(), format!(
        r#"{{"accessToken":"old-access-token","expiresAt":"2026-11-15T19:00:00Z","refreshToken":"{}","clientId":"c","clientSecret":"{}","registrationExpiresAt":"2027-01-01T00:00:00Z"}}"#,
        refresh.expose(), secret.expose()
    ));
    assert_eq!(sandbox.eks("-i demo --profile x").access_key_id(), "AKSSO");
    assert_eq!(portal.seen()[0].header("x-amz-sso_bearer_token"), new.expose());
    let kept = std::fs::read_to_string(file).unwrap();
    for part in [
        new.expose(),
        "next-refresh-token",
        r#""expiresAt":"2026-11-15T20:17:49Z""#,
        r#""startUrl":"https://corp.example/start""#,
    ] {
        assert!(kept.contains(part), "{part}");
    }
    assert_eq!(sandbox.eks("-i demo --profile x").access_key_id(), "AKSSO");
    assert_eq!((issuer.seen().len(), portal.seen().len()), (1, 1));
}

#[test]
fn distinguishes_rejected_login_and_denied_role() {
    for (status, told) in [
        (401, "was rejected\nhint: log in with `aws sso login --profile x`"),
        (403, "ForbiddenException\nhint: request access"),
        (500, "rejected the request for the SSO role dev ops in account 111122223333: 500"),
    ] {
        let mut sandbox = sandbox();
        let portal = FakeEndpoint::start(move |_| FakeReply::Status(status, r#"{"message":"hunter2"}"#.into()));
        sandbox.set("AWS_ENDPOINT_URL_SSO", &*portal.url);
        sandbox.file(&session_file(), r#"{"accessToken":"some-access-token","expiresAt":"2026-11-15T23:00:00Z"}"#);
        let run = sandbox.eks("-i demo --profile x");
        assert!(run.error().contains(told) && !run.stderr.contains("hunter2"), "{run:?}");
    }
}
