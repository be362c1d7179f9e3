//! Invalid responses of token endpoints, and invalid key files.

use std::sync::Arc;
use std::time::Duration;

use credlet_exec::ManualClock;
use serde_json::{Value, json};

use crate::support::{FakeEndpoint, FakeReply, NOW, PluginRun, Sandbox, granted, jwt, key};

const ADC: &str = "--use_application_default_credentials";
const AKS: &str = "--server-id s -t t --client-id c";

/// A token request of a plugin. Only the endpoint `bad` misbehaves; requests before it go to `good`.
struct EndpointCase {
    name: &'static str,
    run: fn(Sandbox, bad: &str, good: &str) -> PluginRun,
}

/// All endpoints that return a secret to a plugin.
const ENDPOINT_CASES: [EndpointCase; 11] = [
    EndpointCase { name: "a service account's", run: |sandbox, bad, _| gke(sandbox, &service_account(bad)) },
    EndpointCase {
        name: "a person's of gcloud",
        run: |sandbox, bad, _| {
            let user = json!({ "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r", "token_uri": bad });
            gke(sandbox, &user.to_string())
        },
    },
    EndpointCase {
        name: "Google's exchange",
        run: |sandbox, bad, _| {
            let key = external(&sandbox, bad).to_string();
            gke(sandbox, &key)
        },
    },
    EndpointCase {
        name: "who lets us act as another",
        run: |sandbox, bad, good| {
            let mut key = external(&sandbox, good);
            key["service_account_impersonation_url"] = bad.into();
            gke(sandbox, &key.to_string())
        },
    },
    EndpointCase {
        name: "a machine of Google's",
        run: |sandbox, bad, _| {
            sandbox.var("NO_GCE_CHECK", "").var("GCE_METADATA_HOST", &bad["http://".len()..]).gke(ADC)
        },
    },
    EndpointCase {
        name: "Entra ID",
        run: |sandbox, bad, _| {
            let secret = sandbox.watch.secret("client secret");
            let sandbox = sandbox.var("AZURE_AUTHORITY_HOST", bad).var("AZURE_CLIENT_SECRET", secret.expose());
            sandbox.aks(&format!("-l spn {AKS}"))
        },
    },
    EndpointCase {
        name: "a machine of Azure's",
        run: |sandbox, bad, _| sandbox.var("AZURE_POD_IDENTITY_AUTHORITY_HOST", bad).aks("-l msi --server-id s"),
    },
    EndpointCase {
        name: "an App Service",
        run: |sandbox, bad, _| {
            let header = sandbox.watch.secret("identity header");
            let sandbox = sandbox.var("IDENTITY_ENDPOINT", bad).var("IDENTITY_HEADER", header.expose());
            sandbox.aks("-l msi --server-id s")
        },
    },
    EndpointCase {
        name: "Arc's agent",
        run: |sandbox, bad, _| {
            sandbox.var("IDENTITY_ENDPOINT", bad).var("IMDS_ENDPOINT", bad).aks("-l msi --server-id s")
        },
    },
    EndpointCase { name: "a CI, for the cluster", run: |sandbox, bad, _| job(sandbox, bad).ci_token("") },
    EndpointCase {
        name: "a CI, for Entra ID",
        run: |sandbox, bad, good| {
            job(sandbox, bad).var("AZURE_AUTHORITY_HOST", good).aks(&format!("-l workloadidentity {AKS}"))
        },
    },
];

fn service_account(url: &str) -> String {
    json!({ "type": "service_account", "client_email": "a@b", "private_key": key().pem, "token_uri": url }).to_string()
}

/// The credentials of an external account.
fn external(sandbox: &Sandbox, url: &str) -> Value {
    let file = sandbox.file("subject", jwt(r#"{"sub":"subject"}"#));
    json!({ "type": "external_account", "audience": "a", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": url, "credential_source": { "file": file } })
}

fn gke(sandbox: Sandbox, key: &str) -> PluginRun {
    let path = sandbox.file("key.json", key);
    sandbox.var("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap()).gke(ADC)
}

fn job(sandbox: Sandbox, url: &str) -> Sandbox {
    let bearer = sandbox.watch.secret("request token");
    sandbox.var("ACTIONS_ID_TOKEN_REQUEST_URL", url).var("ACTIONS_ID_TOKEN_REQUEST_TOKEN", bearer.expose())
}

/// Passes the error of each plugin to `check`. No error may quote the response.
#[track_caller]
fn everywhere(answer: impl Fn() -> FakeReply + Send + Sync + 'static, mut check: impl FnMut(&'static str, &str)) {
    let bad = FakeEndpoint::start(move |_| answer());
    let good = FakeEndpoint::start(|_| granted("on-the-way"));
    for EndpointCase { name, run } in ENDPOINT_CASES {
        let run = run(Sandbox::new(), &bad.url, &good.url);
        assert!(!run.stderr.contains("hunter2"), "{name}: {run:?}");
        check(name, run.error());
    }
    assert!(bad.seen().len() >= ENDPOINT_CASES.len(), "somebody was not asked");
}

#[test]
fn reports_html_response_without_content() {
    for status in [200, 400, 403, 503] {
        let page = move || FakeReply::Status(status, "<html><body>hunter2 log in here</body></html>".into());
        everywhere(page, |name, said| {
            let told = "hint: check whether a proxy or a login page";
            assert!(said.contains(told), "{name}: {said}");
        });
    }
}

#[test]
fn limits_response_size() {
    everywhere(|| FakeReply::Flood, |name, said| assert!(said.contains("exceeds 1024 KiB"), "{name}: {said}"));
}

#[test]
fn does_not_follow_redirects_with_credentials() {
    let elsewhere = FakeEndpoint::start(|_| granted("stolen"));
    for status in [301, 302, 303, 307, 308] {
        let url = elsewhere.url.clone();
        everywhere(
            move || FakeReply::WithHeader(status, "Location", url.clone(), String::new()),
            |name, said| {
                let told = "refused to follow a redirect";
                assert!(said.contains(told), "{name}: {said}");
            },
        );
    }
    assert!(elsewhere.seen().is_empty());
}

#[test]
fn rejects_invalid_token_responses() {
    for (answer, told) in [
        ("", "empty body"),
        ("hunter2", "not valid JSON"),
        (r#"{"access_token":"hunter2"#, "not valid JSON"),
        ("{}", "JSON with missing or invalid fields"),
        ("[]", "JSON with missing or invalid fields"),
        ("null", "JSON with missing or invalid fields"),
        (
            r#"{"access_token":["hunter2"],"value":["hunter2"],"accessToken":["hunter2"]}"#,
            "JSON with missing or invalid fields",
        ),
        (r#"{"access_token":"","value":"","accessToken":"","expireTime":"2026-11-15T20:00:00Z"}"#, "empty token"),
    ] {
        everywhere(
            move || FakeReply::Status(200, answer.into()),
            |name, said| assert!(said.contains(told), "{name}, {answer}: {said}"),
        );
    }
}

#[test]
fn rejects_expired_tokens() {
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
        let bad = FakeEndpoint::start(move |_| FakeReply::Status(200, answer.clone()));
        let good = FakeEndpoint::start(|_| granted("on-the-way"));
        // The expiry of a token for Entra ID is checked by Entra ID.
        for EndpointCase { name, run } in ENDPOINT_CASES.iter().filter(|place| place.name != "a CI, for Entra ID") {
            let run = run(Sandbox::new(), &bad.url, &good.url);
            assert!(run.error().contains(" expired at 2026-11-15T1"), "{name}: {run:?}");
            assert!(!run.stderr.contains("hunter2"), "{run:?}");
        }
    }
}

#[test]
fn rejects_invalid_expiry() {
    let bad = FakeEndpoint::start(|_| FakeReply::Status(200, r#"{"access_token":"hunter2","expires_in":9e18}"#.into()));
    for place in ENDPOINT_CASES.iter().filter(|place| ["a service account's", "Entra ID"].contains(&place.name)) {
        let run = (place.run)(Sandbox::new(), &bad.url, "");
        assert!(run.error().contains("it has an invalid expiry"), "{run:?}");
        assert!(!run.stderr.contains("hunter2"));
    }
}

#[test]
fn times_out_on_silent_server() {
    for EndpointCase { name, run } in ENDPOINT_CASES {
        let clock = ManualClock::new(NOW.parse().unwrap());
        let advancing = clock.clone();
        let silent = FakeEndpoint::start(move |_| {
            advancing.advance(Duration::from_secs(31));
            FakeReply::Silence
        });
        let good = FakeEndpoint::start(|_| granted("on-the-way"));
        let mut sandbox = Sandbox::new();
        sandbox.clock = Arc::new(clock);
        let run = run(sandbox, &silent.url, &good.url);
        assert!(run.error().contains("timed out after "), "{name}: {run:?}");
        assert_eq!(silent.seen().len(), 1, "{name}: asked again");
    }
}

#[test]
fn credentials_require_https() {
    let run = Sandbox::new()
        .var("AZURE_AUTHORITY_HOST", "http://login.example")
        .var("AZURE_CLIENT_SECRET", "s")
        .aks("-l spn --server-id s -t t --client-id c");
    assert!(run.error().contains("use https"), "{run:?}");
    let run = gke(
        Sandbox::new(),
        r#"{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","token_uri":"http://id.example/"}"#,
    );
    assert!(run.error().contains("use https"), "{run:?}");
}

#[test]
fn reports_invalid_key_files_without_content() {
    let account = |key: &str| {
        serde_json::json!({ "type": "service_account", "client_email": "a@b", "private_key": key }).to_string()
    };
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for (text, told) in [
        (String::new(), "not JSON"),
        ("hunter2".into(), "not JSON"),
        ("<html>hunter2".into(), "not JSON"),
        ("[]".into(), "a required field is missing or invalid"),
        (r#"{"private_key":"hunter2"}"#.into(), "a required field is missing or invalid"),
        (r#"{"type":"service_account","private_key":"hunter2"}"#.into(), "a required field is missing or invalid"),
        (
            r#"{"type":"authorized_user","client_id":"c","client_secret":"hunter2","refresh_token":""}"#.into(),
            "a required field is missing or invalid",
        ),
        (r#"{"type":"hunter"}"#.into(), "unsupported type `hunter`"),
        (account(""), "a required field is missing or invalid"),
        (account("hunter2"), "invalid private key of the service account: not a private key in PEM format"),
        (account("-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n"), "not an RSA key"),
        (account(&ec), "not an RSA key"),
    ] {
        let run = gke(Sandbox::new(), &text);
        assert!(run.error().contains(told), "{text}: {run:?}");
        assert!(!run.stderr.contains("hunter2") && !run.stderr.contains("aHVudGVyMg"), "{run:?}");
    }
    let run = Sandbox::new()
        .var("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/x.json")
        .gke("--use_application_default_credentials");
    assert!(run.error().contains("failed to read Google Cloud credentials: /nowhere/x.json does not exist"), "{run:?}");
}

#[test]
fn usage_error_hides_secret() {
    let run = Sandbox::new().aks("get-token --client-secret=hunter2 --nonsense");
    assert!(run.stderr.contains("--nonsense") && !run.stderr.contains("hunter2"), "{run:?}");
}
