//! Servers that misbehave, and files that are not what they should be.

use std::sync::Arc;
use std::time::Duration;

use credlet_core::ManualClock;

use crate::support::{NOW, Peer, Reply, Run, Stage, key};

/// A service account at a token endpoint that answers so.
fn google(answer: impl Fn() -> Reply + Send + Sync + 'static) -> Run {
    let server = Peer::start(move |_| answer());
    gke(&serde_json::json!({ "type": "service_account", "client_email": "a@b", "private_key": key().pem, "token_uri": server.url }).to_string())
}

fn gke(key: &str) -> Run {
    let stage = Stage::new();
    let path = stage.file("key.json", key);
    stage.var("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap()).gke("--use_application_default_credentials")
}

/// A service principal at an Entra ID that answers so.
fn entra(answer: impl Fn() -> Reply + Send + Sync + 'static) -> Run {
    let server = Peer::start(move |_| answer());
    let stage = Stage::new().var("AZURE_AUTHORITY_HOST", &*server.url);
    let secret = stage.watch.secret("client secret");
    stage.var("AZURE_CLIENT_SECRET", secret.expose()).aks("-l spn --server-id s -t t --client-id c")
}

/// Both clouds.
fn both(answer: impl Fn() -> Reply + Clone + Send + Sync + 'static) -> [Run; 2] {
    [google(answer.clone()), entra(answer)]
}

#[test]
fn a_web_page_in_an_answers_place_is_told_without_its_content() {
    for status in [200, 400, 403, 503] {
        for run in both(move || Reply::Answer(status, "<html><body>hunter2 log in here</body></html>".into())) {
            let told = "hint: a proxy or a login page of the network may have answered in its place";
            assert!(run.refusal().contains(told), "{run:?}");
            assert!(!run.stderr.contains("hunter2"));
        }
    }
}

#[test]
fn an_answer_without_end_is_not_read() {
    for run in both(|| Reply::Flood) {
        assert!(run.refusal().contains("is larger than 1024 KiB"), "{run:?}");
    }
}

#[test]
fn a_redirect_is_not_followed_with_a_credential() {
    let elsewhere = Peer::start(|_| Reply::Answer(200, r#"{"access_token":"stolen"}"#.into()));
    for status in [301, 302, 303, 307, 308] {
        let url = elsewhere.url.clone();
        for run in both(move || Reply::With(status, "Location", url.clone(), String::new())) {
            assert!(run.refusal().contains("sends us to another place, where no credential of ours may go"), "{run:?}");
        }
    }
    let url = elsewhere.url.clone();
    let metadata = Peer::start(move |_| Reply::With(302, "Location", url.clone(), String::new()));
    let host = &metadata.url["http://".len()..];
    let run = Stage::new()
        .var("NO_GCE_CHECK", "")
        .var("GCE_METADATA_HOST", host)
        .gke("--use_application_default_credentials");
    assert!(run.refusal().contains("sends us to another place"), "{run:?}");
    let run = Stage::new().var("AZURE_POD_IDENTITY_AUTHORITY_HOST", &*metadata.url).aks("-l msi --server-id s");
    assert!(run.refusal().contains("sends us to another place"), "{run:?}");
    assert!(elsewhere.seen().is_empty());
}

#[test]
fn answers_without_a_token_or_with_an_old_one_are_refused() {
    for (answer, told) in [
        (r#"{"access_token":"","expires_in":3599}"#, "that has an empty token in it"),
        (r#"{"expires_in":3599}"#, "that lacks what belongs in it"),
        (r#"{"access_token":["hunter2"]}"#, "that lacks what belongs in it"),
        (r#"{"access_token":"hunter2","expires_in":0}"#, "expired at 2026-11-15T19:17:49Z"),
        (r#"{"access_token":"hunter2","expires_in":-5}"#, "expired at 2026-11-15T19:17:44Z"),
        (r#"{"access_token":"hunter2","expires_in":9e18}"#, "that has an end which is not a time"),
        ("", "that is empty"),
        ("hunter2", "that is not JSON"),
    ] {
        for run in both(move || Reply::Answer(200, answer.into())) {
            assert!(run.refusal().contains(told), "{answer}: {run:?}");
            assert!(!run.stderr.contains("hunter2"));
        }
    }
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let clock = ManualClock::new(NOW.parse().unwrap());
    let advancing = clock.clone();
    let server = Peer::start(move |_| {
        advancing.advance(Duration::from_secs(31));
        Reply::Silence
    });
    let mut stage = Stage::new()
        .var("AZURE_AUTHORITY_HOST", &*server.url)
        .var("AZURE_CLIENT_SECRET", "s")
        .var("AZURE_POD_IDENTITY_AUTHORITY_HOST", &*server.url)
        .var("NO_GCE_CHECK", "")
        .var("GCE_METADATA_HOST", &server.url["http://".len()..]);
    stage.clock = Arc::new(clock);
    assert!(stage.aks("-l spn --server-id s -t t --client-id c").refusal().contains("did not answer within 30 s"));
    assert!(stage.aks("-l msi --server-id s").refusal().contains("did not answer within 20 s"));
    assert!(stage.gke("--use_application_default_credentials").refusal().contains("did not answer within 10 s"));
}

#[test]
fn credentials_do_not_travel_in_the_clear() {
    let run = Stage::new()
        .var("AZURE_AUTHORITY_HOST", "http://login.example")
        .var("AZURE_CLIENT_SECRET", "s")
        .aks("-l spn --server-id s -t t --client-id c");
    assert!(run.refusal().contains("use https"), "{run:?}");
    let run = gke(
        r#"{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","token_uri":"http://id.example/"}"#,
    );
    assert!(run.refusal().contains("use https"), "{run:?}");
}

#[test]
fn key_files_of_no_use_are_told_apart_without_their_content() {
    let account = |key: &str| {
        serde_json::json!({ "type": "service_account", "client_email": "a@b", "private_key": key }).to_string()
    };
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for (text, told) in [
        (String::new(), "are not JSON"),
        ("hunter2".into(), "are not JSON"),
        ("<html>hunter2".into(), "are not JSON"),
        ("[]".into(), "lack what belongs in them"),
        (r#"{"private_key":"hunter2"}"#.into(), "lack what belongs in them"),
        (r#"{"type":"service_account","private_key":"hunter2"}"#.into(), "lack what belongs in them"),
        (
            r#"{"type":"authorized_user","client_id":"c","client_secret":"hunter2","refresh_token":""}"#.into(),
            "lack what belongs in them",
        ),
        (r#"{"type":"hunter"}"#.into(), "are of the kind `hunter`, which is not known here"),
        (account(""), "lack what belongs in them"),
        (account("hunter2"), "the private key of the service account is not a private key in PEM form"),
        (account("-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n"), "is not an RSA key"),
        (account(&ec), "is not an RSA key"),
    ] {
        let run = gke(&text);
        assert!(run.refusal().contains(told), "{text}: {run:?}");
        assert!(!run.stderr.contains("hunter2") && !run.stderr.contains("aHVudGVyMg"), "{run:?}");
    }
    let run = Stage::new()
        .var("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/x.json")
        .gke("--use_application_default_credentials");
    assert!(run.refusal().contains("cannot be read from /nowhere/x.json"), "{run:?}");
}

#[test]
fn a_mistake_in_the_flags_does_not_show_a_secret() {
    let run = Stage::new().aks("get-token --client-secret=hunter2 --nonsense");
    assert!(run.stderr.contains("--nonsense") && !run.stderr.contains("hunter2"), "{run:?}");
}
