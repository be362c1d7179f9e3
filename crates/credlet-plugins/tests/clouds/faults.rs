//! Servers that misbehave, and files that are not what they should be.

use std::sync::Arc;
use std::time::Duration;

use credlet_core::ManualClock;
use serde_json::{Value, json};

use crate::support::{NOW, Peer, Reply, Run, Stage, granted, jwt, key};

const ADC: &str = "--use_application_default_credentials";
const AKS: &str = "--server-id s -t t --client-id c";

/// Who is asked for a token, and by whom. Only what lies behind `bad` misbehaves; who is asked before says what it should.
struct Place {
    name: &'static str,
    run: fn(Stage, bad: &str, good: &str) -> Run,
}

/// All endpoints that a plugin gets something secret from.
const PLACES: [Place; 11] = [
    Place { name: "a service account's", run: |stage, bad, _| gke(stage, &service_account(bad)) },
    Place {
        name: "a person's of gcloud",
        run: |stage, bad, _| {
            let user = json!({ "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r", "token_uri": bad });
            gke(stage, &user.to_string())
        },
    },
    Place {
        name: "Google's exchange",
        run: |stage, bad, _| {
            let key = external(&stage, bad).to_string();
            gke(stage, &key)
        },
    },
    Place {
        name: "who lets us act as another",
        run: |stage, bad, good| {
            let mut key = external(&stage, good);
            key["service_account_impersonation_url"] = bad.into();
            gke(stage, &key.to_string())
        },
    },
    Place {
        name: "a machine of Google's",
        run: |stage, bad, _| stage.var("NO_GCE_CHECK", "").var("GCE_METADATA_HOST", &bad["http://".len()..]).gke(ADC),
    },
    Place {
        name: "Entra ID",
        run: |stage, bad, _| {
            let secret = stage.watch.secret("client secret");
            let stage = stage.var("AZURE_AUTHORITY_HOST", bad).var("AZURE_CLIENT_SECRET", secret.expose());
            stage.aks(&format!("-l spn {AKS}"))
        },
    },
    Place {
        name: "a machine of Azure's",
        run: |stage, bad, _| stage.var("AZURE_POD_IDENTITY_AUTHORITY_HOST", bad).aks("-l msi --server-id s"),
    },
    Place {
        name: "an App Service",
        run: |stage, bad, _| {
            let header = stage.watch.secret("identity header");
            let stage = stage.var("IDENTITY_ENDPOINT", bad).var("IDENTITY_HEADER", header.expose());
            stage.aks("-l msi --server-id s")
        },
    },
    Place {
        name: "Arc's agent",
        run: |stage, bad, _| stage.var("IDENTITY_ENDPOINT", bad).var("IMDS_ENDPOINT", bad).aks("-l msi --server-id s"),
    },
    Place { name: "a CI, for the cluster", run: |stage, bad, _| job(stage, bad).ci_token("") },
    Place {
        name: "a CI, for Entra ID",
        run: |stage, bad, good| {
            job(stage, bad).var("AZURE_AUTHORITY_HOST", good).aks(&format!("-l workloadidentity {AKS}"))
        },
    },
];

fn service_account(url: &str) -> String {
    json!({ "type": "service_account", "client_email": "a@b", "private_key": key().pem, "token_uri": url }).to_string()
}

/// A workload whom another issuer vouches for.
fn external(stage: &Stage, url: &str) -> Value {
    let file = stage.file("subject", "subject");
    json!({ "type": "external_account", "audience": "a", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": url, "credential_source": { "file": file } })
}

fn gke(stage: Stage, key: &str) -> Run {
    let path = stage.file("key.json", key);
    stage.var("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap()).gke(ADC)
}

fn job(stage: Stage, url: &str) -> Stage {
    let bearer = stage.watch.secret("request token");
    stage.var("ACTIONS_ID_TOKEN_REQUEST_URL", url).var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", bearer.expose())
}

/// What is said by each plugin whose endpoint answers so. None of it may show what the endpoint said.
#[track_caller]
fn everywhere(answer: impl Fn() -> Reply + Send + Sync + 'static, mut check: impl FnMut(&'static str, &str)) {
    let bad = Peer::start(move |_| answer());
    let good = Peer::start(|_| granted("on-the-way"));
    for Place { name, run } in PLACES {
        let run = run(Stage::new(), &bad.url, &good.url);
        assert!(!run.stderr.contains("hunter2"), "{name}: {run:?}");
        check(name, run.refusal());
    }
    assert!(bad.seen().len() >= PLACES.len(), "somebody was not asked");
}

#[test]
fn a_web_page_in_an_answers_place_is_told_without_its_content() {
    for status in [200, 400, 403, 503] {
        let page = move || Reply::Answer(status, "<html><body>hunter2 log in here</body></html>".into());
        everywhere(page, |name, said| {
            let told = "hint: a proxy or a login page of the network may have answered in its place";
            assert!(said.contains(told), "{name}: {said}");
        });
    }
}

#[test]
fn an_answer_without_end_is_not_read() {
    everywhere(|| Reply::Flood, |name, said| assert!(said.contains("is larger than 1024 KiB"), "{name}: {said}"));
}

#[test]
fn a_redirect_is_not_followed_with_a_credential() {
    let elsewhere = Peer::start(|_| granted("stolen"));
    for status in [301, 302, 303, 307, 308] {
        let url = elsewhere.url.clone();
        everywhere(
            move || Reply::With(status, "Location", url.clone(), String::new()),
            |name, said| {
                let told = "sends us to another place, where no credential of ours may go";
                assert!(said.contains(told), "{name}: {said}");
            },
        );
    }
    assert!(elsewhere.seen().is_empty());
}

#[test]
fn an_answer_that_is_not_json_or_has_no_token_is_refused() {
    for (answer, told) in [
        ("", "that is empty"),
        ("hunter2", "that is not JSON"),
        (r#"{"access_token":"hunter2"#, "that is not JSON"),
        ("{}", "that lacks what belongs in it"),
        ("[]", "that lacks what belongs in it"),
        ("null", "that lacks what belongs in it"),
        (
            r#"{"access_token":["hunter2"],"value":["hunter2"],"accessToken":["hunter2"]}"#,
            "that lacks what belongs in it",
        ),
        (
            r#"{"access_token":"","value":"","accessToken":"","expireTime":"2026-11-15T20:00:00Z"}"#,
            "that has an empty token in it",
        ),
    ] {
        everywhere(
            move || Reply::Answer(200, answer.into()),
            |name, said| assert!(said.contains(told), "{name}, {answer}: {said}"),
        );
    }
}

#[test]
fn a_token_that_is_over_is_refused() {
    let over = jwt(r#"{"exp":1794769000}"#);
    for answer in [
        format!(
            r#"{{"access_token":"hunter2","value":"{over}","accessToken":"hunter2","expires_in":0,"expireTime":"2026-11-15T19:17:49Z"}}"#
        ),
        format!(
            r#"{{"access_token":"hunter2","value":"{over}","accessToken":"hunter2","expires_in":-5,"expireTime":"2026-11-15T19:17:44Z"}}"#
        ),
        format!(
            r#"{{"access_token":"{over}","value":"{over}","accessToken":"{over}","expires_in":3600,"expireTime":"2026-11-15T20:17:44Z"}}"#
        ),
    ] {
        let bad = Peer::start(move |_| Reply::Answer(200, answer.clone()));
        let good = Peer::start(|_| granted("on-the-way"));
        // What a CI says is for Entra ID to judge, if it is for Entra ID.
        for Place { name, run } in PLACES.iter().filter(|place| place.name != "a CI, for Entra ID") {
            let run = run(Stage::new(), &bad.url, &good.url);
            assert!(run.refusal().contains(" expired at 2026-11-15T1"), "{name}: {run:?}");
            assert!(!run.stderr.contains("hunter2"), "{run:?}");
        }
    }
}

#[test]
fn an_end_that_is_no_time_is_refused() {
    let bad = Peer::start(|_| Reply::Answer(200, r#"{"access_token":"hunter2","expires_in":9e18}"#.into()));
    for place in PLACES.iter().filter(|place| ["a service account's", "Entra ID"].contains(&place.name)) {
        let run = (place.run)(Stage::new(), &bad.url, "");
        assert!(run.refusal().contains("that has an end which is not a time"), "{run:?}");
        assert!(!run.stderr.contains("hunter2"));
    }
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    for Place { name, run } in PLACES {
        let clock = ManualClock::new(NOW.parse().unwrap());
        let advancing = clock.clone();
        let silent = Peer::start(move |_| {
            advancing.advance(Duration::from_secs(31));
            Reply::Silence
        });
        let good = Peer::start(|_| granted("on-the-way"));
        let mut stage = Stage::new();
        stage.clock = Arc::new(clock);
        let run = run(stage, &silent.url, &good.url);
        assert!(run.refusal().contains("did not answer within "), "{name}: {run:?}");
        assert_eq!(silent.seen().len(), 1, "{name}: asked again");
    }
}

#[test]
fn credentials_do_not_travel_in_the_clear() {
    let run = Stage::new()
        .var("AZURE_AUTHORITY_HOST", "http://login.example")
        .var("AZURE_CLIENT_SECRET", "s")
        .aks("-l spn --server-id s -t t --client-id c");
    assert!(run.refusal().contains("use https"), "{run:?}");
    let run = gke(
        Stage::new(),
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
        let run = gke(Stage::new(), &text);
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
