//! What gcloud leaves on a disk. The two databases were made by `gcloud/make.py`.

use crate::support::{Peer, Reply, Seen, Stage, granted};

const TOKENS: &[u8] = include_bytes!("gcloud/access_tokens.db");
const LOGINS: &[u8] = include_bytes!("gcloud/credentials.db");

/// A person with two configurations: of ada and of bob.
fn stage() -> Stage {
    let stage = Stage::new();
    stage.file(".config/gcloud/access_tokens.db", TOKENS);
    stage.file(".config/gcloud/credentials.db", LOGINS);
    stage.file(".config/gcloud/configurations/config_default", "[core]\naccount = ada@example.test\nproject = p\n");
    stage.file(".config/gcloud/configurations/config_work", "[core]\naccount = bob@example.test\n");
    stage
}

#[test]
fn a_stored_token_is_served_without_asking_anybody() {
    let run = stage().gke("");
    assert_eq!(run.token(), format!("ya29.adas-stored-token-{}", "a".repeat(1500)));
    assert_eq!(run.expires(), "2026-11-15T20:00:00Z");
    assert_eq!(stage().gke("--account user17@example.test").token(), format!("ya29.other-17-{}", "x".repeat(40)));
}

#[test]
fn a_switch_of_account_is_seen_at_once() {
    let server = Peer::start(|_| granted("ya29.bobs-new-token"));
    let mut stage = stage().var("CLOUDSDK_AUTH_TOKEN_HOST", &*server.url);
    assert!(stage.gke("").token().starts_with("ya29.adas"));
    stage.file(".config/gcloud/active_config", "work\n");
    // Bob's stored token has expired, so his login is renewed.
    assert_eq!(stage.gke("").token(), "ya29.bobs-new-token");
    let seen = &server.seen()[0];
    assert!(seen.field("refresh_token").starts_with("1%2F%2Fbobs-refresh-tokenrrr"), "{seen:?}");
    assert_eq!(seen.field("client_secret"), "bobs-client-secret");
    assert_eq!(stage.gke("").token(), "ya29.bobs-new-token");
    assert_eq!(server.seen().len(), 1, "the new one is kept");
    stage.set("CLOUDSDK_CORE_ACCOUNT", "eve@example.test");
    assert_eq!(stage.gke("").token(), "ya29.eves-stored-token");
    stage.set("CLOUDSDK_CORE_ACCOUNT", "");
    stage.set("CLOUDSDK_ACTIVE_CONFIG_NAME", "default");
    assert!(stage.gke("").token().starts_with("ya29.adas"));
    assert!(stage.gke("--account=bob@example.test").token().starts_with("ya29.bobs"));
}

#[test]
fn an_account_that_was_revoked_is_gone_with_its_kept_token() {
    let server = Peer::start(|_| granted("ya29.bobs-new-token"));
    let stage = stage().var("CLOUDSDK_AUTH_TOKEN_HOST", &*server.url);
    assert_eq!(stage.gke("--account bob@example.test").token(), "ya29.bobs-new-token");
    std::fs::remove_file(stage.home.path().join(".config/gcloud/credentials.db")).unwrap();
    let run = stage.gke("--account bob@example.test");
    assert!(run.refusal().contains("gcloud knows no login of bob@example.test"), "{run:?}");
    assert!(run.stderr.contains("hint: log in with `gcloud auth login ACCOUNT`"), "{run:?}");
}

#[test]
fn a_login_that_has_ended_says_so() {
    let refusal =
        r#"{"error":"invalid_grant","error_description":"1//bobs-refresh-token","error_subtype":"invalid_rapt"}"#;
    let server = Peer::start(move |_| Reply::Answer(400, refusal.into()));
    let run = stage().var("CLOUDSDK_AUTH_TOKEN_HOST", &*server.url).gke("--account bob@example.test");
    assert!(run.refusal().contains("400 Bad Request (invalid_rapt)\nhint: the login has ended"), "{run:?}");
    assert!(!run.stderr.contains("bobs-refresh-token"));
}

#[test]
fn nobody_logged_in_says_what_to_do() {
    let run = Stage::new().gke("");
    assert!(
        run.refusal().contains("gcloud's configuration `default` names no account; NO_GCE_CHECK is set"),
        "{run:?}"
    );
    assert!(run.stderr.contains("\nhint: log in with `gcloud auth login`"), "{run:?}");
    for (account, told) in [
        ("rapt@example.test", "gcloud knows no login of rapt@example.test"),
        ("odd@example.test", "are of the kind `service_account_p12`, which is not known here"),
        ("broken@example.test", "gcloud's credentials of broken@example.test in "),
    ] {
        let run = stage().gke(&format!("--account {account}"));
        assert!(run.refusal().contains(told), "{run:?}");
    }
}

#[test]
fn a_token_or_a_key_file_that_the_person_names_goes_first() {
    assert_eq!(stage().var("CLOUDSDK_AUTH_ACCESS_TOKEN", "ya29.given").gke("").token(), "ya29.given");
    let stage = stage();
    let path = stage.file("token", "ya29.in-a-file\n");
    let mut stage = stage.var("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", path.to_str().unwrap());
    let run = stage.gke("");
    assert_eq!((run.token(), run.expires()), ("ya29.in-a-file".into(), String::new()));

    let server = Peer::start(|_| granted("ya29.by-override"));
    let path = stage.file(
        "adc.json",
        format!(
            r#"{{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","token_uri":"{}"}}"#,
            server.url
        ),
    );
    stage.set("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", "");
    stage.set("CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE", path.to_str().unwrap());
    assert_eq!(stage.gke("").token(), "ya29.by-override");
}

#[test]
fn a_stored_login_impersonates_too() {
    let server = Peer::start(|seen: &Seen| match seen.path.as_str() {
        "/token" => granted("ya29.bobs-new-token"),
        _ => Reply::Answer(200, r#"{"accessToken":"robot","expireTime":"2026-11-15T20:00:00Z"}"#.into()),
    });
    let stage = stage()
        .var("CLOUDSDK_AUTH_TOKEN_HOST", format!("{}/token", server.url))
        .var("CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS", &*server.url);
    stage.file(
        ".config/gcloud/configurations/config_default",
        "[core]\naccount = bob@example.test\n[auth]\nimpersonate_service_account = robot@p\n",
    );
    assert_eq!(stage.gke("").token(), "robot");
    assert_eq!(server.seen()[1].header("authorization"), "Bearer ya29.bobs-new-token");
}

#[test]
fn files_that_are_no_database_or_in_use_are_not_read() {
    let stage = stage();
    stage.file(".config/gcloud/access_tokens.db", "SQLite format 2");
    assert!(stage.gke("").refusal().contains("gcloud knows no login of ada@example.test"));
    stage.file(".config/gcloud/access_tokens.db", TOKENS);
    stage.gke("").token();
    stage.file(".config/gcloud/access_tokens.db-journal", "somebody writes");
    assert!(stage.gke("").refusal().contains("gcloud knows no login of ada@example.test"));
}
