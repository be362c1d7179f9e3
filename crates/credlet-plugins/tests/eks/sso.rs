use crate::support::{Peer, Reply, Stage};

const CONFIG: &str = "[profile x]\nsso_session = corp\nsso_account_id = 111122223333\nsso_role_name = dev ops\n\
    [sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.example/start\n\
    [profile old]\nsso_account_id = 1\nsso_role_name = r\nsso_region = eu-west-1\nsso_start_url = https://corp.example/start\n";

fn stage() -> Stage {
    Stage::new().config(CONFIG)
}

fn session_file() -> String {
    format!(".aws/sso/cache/{}.json", sha1("corp"))
}

fn sha1(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn given(secret: &str) -> Reply {
    let expiration = 1_794_773_869_000_i64;
    Reply::Answer(
        200,
        format!(
            r#"{{"roleCredentials":{{"accessKeyId":"AKSSO","secretAccessKey":"{secret}","sessionToken":"t","expiration":{expiration}}}}}"#
        ),
    )
}

#[test]
fn who_is_not_logged_in_is_told_how() {
    for (file, told) in [
        (None, "is missing"),
        (Some(r#"{"accessToken":"hunter2","expiresAt":"2026-11-15T19:00:00Z"}"#), "has expired"),
        (Some(r#"{"accessToken":"hunter2","expiresAt":"2026-11-15T19:00:00UTC"}"#), "has expired"),
        (Some(r#"{"accessToken":"hunter2"}"#), "has expired"),
        (Some("hunter2"), "cannot be read"),
    ] {
        let stage = stage();
        if let Some(text) = file {
            stage.file(&session_file(), text);
        }
        let run = stage.run("-i demo --profile x");
        assert_eq!(
            run.refusal(),
            format!(
                "error: the SSO login of the AWS profile `x` {told}\nhint: log in with `aws sso login --profile x`\n"
            )
        );
    }
}

#[test]
fn the_role_of_a_login_is_fetched_once_and_not_after_a_logout() {
    let mut stage = stage();
    let (token, secret) = (stage.watch.secret("access token"), stage.watch.secret("secret"));
    let portal = Peer::start(move |_| given(secret.expose()));
    stage.set("AWS_ENDPOINT_URL_SSO", &*portal.url);
    let login = format!(r#"{{"accessToken":"{}","expiresAt":"2026-11-15T23:00:00Z","startUrl":"s"}}"#, token.expose());
    let file = stage.file(&session_file(), &login);
    stage.file(&format!(".aws/sso/cache/{}.json", sha1("https://corp.example/start")), &login);
    assert_eq!(stage.run("-i demo --profile x").signer(), "AKSSO");
    assert_eq!(portal.seen()[0].path, "/federation/credentials?role_name=dev%20ops&account_id=111122223333");
    assert_eq!(portal.seen()[0].header("x-amz-sso_bearer_token"), token.expose());
    assert_eq!(stage.run("-i demo --profile x").signer(), "AKSSO");
    assert_eq!(portal.seen().len(), 1);
    assert_eq!(stage.run("-i demo --profile old").signer(), "AKSSO");
    std::fs::remove_file(file).unwrap();
    assert!(stage.run("-i demo --profile x").refusal().contains("is missing"));
}

#[test]
fn a_login_that_is_over_is_renewed_and_kept_where_awscli_finds_it() {
    let mut stage = stage();
    let (refresh, new, secret) =
        (stage.watch.secret("refresh"), stage.watch.secret("new"), stage.watch.secret("client"));
    let (given_new, sent) = (new.clone(), refresh.clone());
    let issuer = Peer::start(move |asked| {
        assert!(asked.body.contains(sent.expose()) && asked.body.contains(r#""grantType":"refresh_token""#));
        Reply::Answer(
            200,
            format!(
                r#"{{"accessToken":"{}","expiresIn":3600,"refreshToken":"next-refresh-token"}}"#,
                given_new.expose()
            ),
        )
    });
    let portal = Peer::start(|_| given("s"));
    stage.set("AWS_ENDPOINT_URL_SSO", &*portal.url);
    stage.set("AWS_ENDPOINT_URL_SSO_OIDC", &*issuer.url);
    let file = stage.file(&session_file(), &format!(
        r#"{{"accessToken":"old-access-token","expiresAt":"2026-11-15T19:00:00Z","refreshToken":"{}","clientId":"c","clientSecret":"{}","registrationExpiresAt":"2027-01-01T00:00:00Z"}}"#,
        refresh.expose(), secret.expose()
    ));
    assert_eq!(stage.run("-i demo --profile x").signer(), "AKSSO");
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
    assert_eq!(stage.run("-i demo --profile x").signer(), "AKSSO");
    assert_eq!((issuer.seen().len(), portal.seen().len()), (1, 1));
}

#[test]
fn a_login_that_the_portal_refuses_and_a_role_that_one_may_not_have_are_told_apart() {
    for (status, told) in [
        (401, "is no longer accepted\nhint: log in with `aws sso login --profile x`"),
        (403, "ForbiddenException\nhint: ask the account's administrator"),
        (500, "refused the SSO role dev ops in account 111122223333: 500"),
    ] {
        let mut stage = stage();
        let portal = Peer::start(move |_| Reply::Answer(status, r#"{"message":"hunter2"}"#.into()));
        stage.set("AWS_ENDPOINT_URL_SSO", &*portal.url);
        stage.file(&session_file(), r#"{"accessToken":"some-access-token","expiresAt":"2026-11-15T23:00:00Z"}"#);
        let run = stage.run("-i demo --profile x");
        assert!(run.refusal().contains(told) && !run.stderr.contains("hunter2"), "{run:?}");
    }
}
