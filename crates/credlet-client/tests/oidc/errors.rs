//! Error messages of failed refreshes, which must not contain secrets.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_exec::{Clock as _, ManualClock, SystemClock};
use credlet_testkit::ca::TestCa;
use credlet_testkit::issuer::{FakeIssuer, ResponseOverride};
use http::StatusCode;

use crate::{Sandbox, status};

const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Returns the error of a request after this response of the issuer.
async fn error_after(path: &str, response: ResponseOverride) -> String {
    let sandbox = Sandbox::new();
    let (old, refresh) = (sandbox.id_token("old id token", -60), sandbox.refresh_token("refresh token"));
    sandbox.issuer.override_response(path, response);
    let kubeconfig = sandbox.logged_in(&old, &refresh);
    let before = std::fs::read(&kubeconfig).unwrap();
    let error = sandbox.credential_error(&sandbox.client(&kubeconfig)).await;
    assert!(std::fs::read(&kubeconfig).unwrap() == before);
    error.replace(sandbox.issuer.url().strip_prefix("https://").unwrap(), "ISSUER")
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_missing_field() {
    for (config, expected) in [
        ("idp-issuer-url: https://i.invalid, client-id: c", "`refresh-token` is missing"),
        ("idp-issuer-url: https://i.invalid, refresh-token: TOKEN", "`client-id` is missing"),
        ("client-id: c, refresh-token: TOKEN", "`idp-issuer-url` is missing"),
        ("idp-issuer-url: http://i.invalid, client-id: c, refresh-token: TOKEN", "is not an https URL"),
        ("idp-issuer-url: i.invalid, client-id: c, refresh-token: TOKEN", "is not a valid URL like"),
    ] {
        let sandbox = Sandbox::new();
        let config = config.replace("TOKEN", &sandbox.refresh_token("refresh token"));
        let config = format!(
            "        id-token: {}\n        {}",
            sandbox.id_token("id token", -60),
            config.replace(", ", "\n        ")
        );
        let error = sandbox.credential_error(&sandbox.client(&sandbox.kubeconfig(&config))).await;
        assert!(error.contains(expected) && error.contains("auth-provider"), "{error}");
        assert!(error.contains("`exec` with kubelogin or with `credlet plugin oidc`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_refresh_token_requires_login() {
    let sandbox = Sandbox::new();
    let (old, refresh) = (sandbox.id_token("old id token", -60), sandbox.refresh_token("refresh token"));
    let error = sandbox.credential_error(&sandbox.client(&sandbox.logged_in(&old, &refresh))).await;
    assert!(error.contains("rejected the `refresh-token`") && error.contains("log in again"), "{error}");
    assert_eq!(sandbox.issuer.seen("/token"), 1, "the refresh token must be sent once");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_client_secret_is_tried_in_both_forms() {
    let sandbox = Sandbox::new();
    let (old, refresh) = (sandbox.id_token("old id token", -60), sandbox.refresh_token("refresh token"));
    sandbox.issuer.grant(&refresh, Some("unused"), None);
    let wrong = sandbox.watch.secret("wrong secret");
    let path = sandbox.logged_in(&old, &refresh);
    let text = std::fs::read_to_string(&path).unwrap().replace(sandbox.secret.expose(), wrong.expose());
    std::fs::write(&path, text).unwrap();
    let error = sandbox.credential_error(&sandbox.client(&path)).await;
    assert!(error.contains("correct `client-id` and `client-secret`"), "{error}");
    assert_eq!(sandbox.issuer.seen("/token"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn saves_refresh_token_without_id_token() {
    let sandbox = Sandbox::new();
    let old = sandbox.id_token("old id token", -60);
    let (first, second) = (sandbox.refresh_token("first refresh token"), sandbox.refresh_token("second refresh token"));
    sandbox.issuer.grant(&first, None, Some(&second));
    let path = sandbox.logged_in(&old, &first);
    let before = std::fs::read_to_string(&path).unwrap();
    let error = sandbox.credential_error(&sandbox.client(&path)).await;
    assert!(error.contains("missing id_token") && error.contains("scope `openid`"), "{error}");
    assert!(std::fs::read_to_string(&path).unwrap() == before.replace(&first, &second));
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_html_response() {
    let page = || ResponseOverride::Respond(200, "<!DOCTYPE html><html><body>Sign in</body></html>".into());
    assert_eq!(
        error_after(DISCOVERY, page()).await,
        "invalid response of the issuer's discovery document at ISSUER: not an object (line 1, column 1)"
    );
    assert_eq!(
        error_after("/token", page()).await,
        "invalid response of the issuer's token endpoint at ISSUER: not an object (line 1, column 1)"
    );
    let missing = error_after(DISCOVERY, ResponseOverride::Respond(404, "<html>".into())).await;
    assert_eq!(missing, "unexpected response of the issuer's discovery document at ISSUER: 404 Not Found");
    let broken = error_after("/token", ResponseOverride::Respond(500, "<html>".into())).await;
    assert_eq!(broken, "unexpected response of the issuer's token endpoint at ISSUER: 500 Internal Server Error");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_oversized_response() {
    for path in [DISCOVERY, "/token"] {
        let error = error_after(path, ResponseOverride::Respond(200, vec![b' '; 50 << 20].into())).await;
        assert!(error.ends_with("at ISSUER is too large: more than 1 MiB"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_endpoint_must_be_https() {
    let none = error_after(DISCOVERY, ResponseOverride::Respond(200, "{}".into())).await;
    assert_eq!(none, "invalid `token_endpoint` of the issuer ISSUER: it is empty");
    for url in ["http://i.invalid/token", "ftp://i.invalid", "/token"] {
        let metadata = format!(r#"{{"token_endpoint":"{url}"}}"#);
        let error = error_after(DISCOVERY, ResponseOverride::Respond(200, metadata.into())).await;
        assert_eq!(error, "invalid `token_endpoint` of the issuer ISSUER: it is not an https URL");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_redirect_to_other_host() {
    let elsewhere = FakeIssuer::start_with_tls(&TestCa::new());
    let error = error_after(DISCOVERY, ResponseOverride::RedirectTo(elsewhere.url().to_owned())).await;
    assert!(error.contains("unexpected redirect"), "{error}");
    let error = error_after("/token", ResponseOverride::RedirectTo("/other".into())).await;
    assert!(error.contains("unexpected redirect"), "{error}");
    let error = error_after(DISCOVERY, ResponseOverride::RedirectTo(DISCOVERY.to_owned())).await;
    assert!(error.contains("unexpected redirect"), "{error}");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn error_names_invalid_certificate_authority() {
    let sandbox = Sandbox::new();
    let right = STANDARD.encode(sandbox.ca.pem());
    for (wrong, expected) in [
        ("'%%%'".to_owned(), "invalid `idp-certificate-authority-data` in the user's auth-provider: it is not base64"),
        (STANDARD.encode("nothing"), "has no PEM certificate"),
        (STANDARD.encode(TestCa::new().pem()), "issued by an unknown certificate authority"),
        (
            "''\n        idp-certificate-authority: /not/there".to_owned(),
            "invalid `idp-certificate-authority` in the user's auth-provider: the file does not exist",
        ),
    ] {
        let (old, refresh) = (sandbox.id_token("old id token", -60), sandbox.refresh_token("refresh token"));
        let path = sandbox.logged_in(&old, &refresh);
        let text = std::fs::read_to_string(&path).unwrap();
        let field = "idp-certificate-authority-data: ";
        let text = text.replace(&format!("{field}{right}"), &format!("{field}{wrong}"));
        std::fs::write(&path, text).unwrap();
        let error = sandbox.credential_error(&sandbox.client(&path)).await;
        assert!(error.contains(expected), "{error}");
    }
    assert!(sandbox.issuer.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_certificate_authority_file() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let refresh = sandbox.refresh_token("refresh token");
    sandbox.issuer.grant(&refresh, Some(&new), None);
    let ca = sandbox.dir.path().join("ca.pem");
    std::fs::write(&ca, sandbox.ca.pem()).unwrap();
    let data = format!("idp-certificate-authority-data: {}", STANDARD.encode(sandbox.ca.pem()));
    let path = sandbox.logged_in(&old, &refresh);
    let file = format!("idp-certificate-authority: {}", ca.display());
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace(&data, &file)).unwrap();
    assert_eq!(status(&sandbox.client(&path)).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn times_out_after_thirty_seconds() {
    let clock = ManualClock::new(SystemClock::new().now());
    let sandbox = Sandbox::at(Arc::new(clock.clone()));
    let (old, refresh) = (sandbox.id_token("old id token", -60), sandbox.refresh_token("refresh token"));
    sandbox.issuer.override_response("/token", ResponseOverride::Hang);
    let client = sandbox.client(&sandbox.logged_in(&old, &refresh));
    let advance = async {
        sandbox.wait_for_requests(|asked| asked.iter().any(|asked| asked.path == "/token")).await;
        clock.advance(Duration::from_secs(31));
    };
    let (error, ()) = tokio::join!(sandbox.credential_error(&client), advance);
    assert_eq!(error, "refreshing the id-token timed out after 30 seconds");
}
