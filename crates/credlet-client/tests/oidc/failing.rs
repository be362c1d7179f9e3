//! Each failure says who must act, and never with what.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_core::{Clock as _, ManualClock, SystemClock};
use credlet_testkit::ca::Ca;
use http::StatusCode;

use crate::issuer::{Issuer, Order};
use crate::{Scene, status};

const DISCOVERY: &str = "/.well-known/openid-configuration";

/// What a request ends in if this is in the answer of an issuer.
async fn refused_after(path: &str, order: Order) -> String {
    let scene = Scene::new();
    let (old, refresh) = (scene.id_token("old id token", -60), scene.refresh_token("refresh token"));
    scene.issuer.order(path, order);
    let kubeconfig = scene.logged_in(&old, &refresh);
    let before = std::fs::read(&kubeconfig).unwrap();
    let error = scene.refused(&scene.client(&kubeconfig)).await;
    assert!(std::fs::read(&kubeconfig).unwrap() == before);
    error.replace(scene.issuer.url().strip_prefix("https://").unwrap(), "ISSUER")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_cannot_be_renewed_names_the_field_and_the_replacement() {
    for (config, expected) in [
        ("idp-issuer-url: https://i.invalid, client-id: c", "`refresh-token` is missing"),
        ("idp-issuer-url: https://i.invalid, refresh-token: TOKEN", "`client-id` is missing"),
        ("client-id: c, refresh-token: TOKEN", "`idp-issuer-url` is missing"),
        ("idp-issuer-url: http://i.invalid, client-id: c, refresh-token: TOKEN", "is not an https address"),
        ("idp-issuer-url: i.invalid, client-id: c, refresh-token: TOKEN", "is not an address like"),
    ] {
        let scene = Scene::new();
        let config = config.replace("TOKEN", &scene.refresh_token("refresh token"));
        let config = format!(
            "        id-token: {}\n        {}",
            scene.id_token("id token", -60),
            config.replace(", ", "\n        ")
        );
        let error = scene.refused(&scene.client(&scene.kubeconfig(&config))).await;
        assert!(error.contains(expected) && error.contains("auth-provider"), "{error}");
        assert!(error.contains("`exec` with kubelogin or with `credlet plugin oidc`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_that_is_used_up_asks_for_a_new_login() {
    let scene = Scene::new();
    let (old, refresh) = (scene.id_token("old id token", -60), scene.refresh_token("refresh token"));
    let error = scene.refused(&scene.client(&scene.logged_in(&old, &refresh))).await;
    assert!(error.contains("no longer accepts the `refresh-token`") && error.contains("log in again"), "{error}");
    assert_eq!(scene.issuer.refreshes(), 1, "an issuer that watches for reuse sees it once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_client_secret_is_tried_in_both_forms_and_then_named() {
    let scene = Scene::new();
    let (old, refresh) = (scene.id_token("old id token", -60), scene.refresh_token("refresh token"));
    scene.issuer.grant(&refresh, Some("unused"), None);
    let wrong = scene.watch.secret("wrong secret");
    let path = scene.logged_in(&old, &refresh);
    let text = std::fs::read_to_string(&path).unwrap().replace(scene.secret.expose(), wrong.expose());
    std::fs::write(&path, text).unwrap();
    let error = scene.refused(&scene.client(&path)).await;
    assert!(error.contains("correct `client-id` and `client-secret`"), "{error}");
    assert_eq!(scene.issuer.refreshes(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_an_id_token_is_an_error_and_its_refresh_token_is_kept() {
    let scene = Scene::new();
    let old = scene.id_token("old id token", -60);
    let (first, second) = (scene.refresh_token("first refresh token"), scene.refresh_token("second refresh token"));
    scene.issuer.grant(&first, None, Some(&second));
    let path = scene.logged_in(&old, &first);
    let before = std::fs::read_to_string(&path).unwrap();
    let error = scene.refused(&scene.client(&path)).await;
    assert!(error.contains("without an id_token") && error.contains("scope `openid`"), "{error}");
    assert!(std::fs::read_to_string(&path).unwrap() == before.replace(&first, &second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_is_no_answer() {
    let page = || Order::Answer(200, "<!DOCTYPE html><html><body>Sign in</body></html>".into());
    assert_eq!(
        refused_after(DISCOVERY, page()).await,
        "the answer of the issuer's discovery document at ISSUER is not an object (line 1, column 1)"
    );
    assert_eq!(
        refused_after("/token", page()).await,
        "the answer of the issuer's token endpoint at ISSUER is not an object (line 1, column 1)"
    );
    let missing = refused_after(DISCOVERY, Order::Answer(404, "<html>".into())).await;
    assert_eq!(missing, "the issuer's discovery document at ISSUER answered 404 Not Found");
    let broken = refused_after("/token", Order::Answer(500, "<html>".into())).await;
    assert_eq!(broken, "the issuer's token endpoint at ISSUER answered 500 Internal Server Error");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_megabytes_are_not_read() {
    for path in [DISCOVERY, "/token"] {
        let error = refused_after(path, Order::Answer(200, vec![b' '; 50 << 20].into())).await;
        assert!(error.ends_with("at ISSUER is larger than 1 MiB"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_endpoint_must_be_there_and_be_https() {
    let none = refused_after(DISCOVERY, Order::Answer(200, "{}".into())).await;
    assert_eq!(none, "the issuer ISSUER names a token_endpoint that is empty");
    for url in ["http://i.invalid/token", "ftp://i.invalid", "/token"] {
        let metadata = format!(r#"{{"token_endpoint":"{url}"}}"#);
        let error = refused_after(DISCOVERY, Order::Answer(200, metadata.into())).await;
        assert_eq!(error, "the issuer ISSUER names a token_endpoint that is not an https address");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_redirect_leads_elsewhere_and_none_takes_a_token_along() {
    let elsewhere = Issuer::start(&Ca::new(), "secret");
    let error = refused_after(DISCOVERY, Order::RedirectTo(elsewhere.url().to_owned())).await;
    assert!(error.contains("sends us to another place"), "{error}");
    let error = refused_after("/token", Order::RedirectTo("/other".into())).await;
    assert!(error.contains("sends us to another place"), "{error}");
    let error = refused_after(DISCOVERY, Order::RedirectTo(DISCOVERY.to_owned())).await;
    assert!(error.contains("sends us to another place"), "{error}");
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_none_or_another_is_named() {
    let scene = Scene::new();
    let right = STANDARD.encode(scene.ca.pem());
    for (wrong, expected) in [
        ("'%%%'".to_owned(), "`idp-certificate-authority-data` of the user's auth-provider is not base64"),
        (STANDARD.encode("nothing"), "holds no certificate in PEM form"),
        (STANDARD.encode(Ca::new().pem()), "is not accepted"),
        (
            "''\n        idp-certificate-authority: /not/there".to_owned(),
            "`idp-certificate-authority` of the user's auth-provider does not exist",
        ),
    ] {
        let (old, refresh) = (scene.id_token("old id token", -60), scene.refresh_token("refresh token"));
        let path = scene.logged_in(&old, &refresh);
        let text = std::fs::read_to_string(&path).unwrap();
        let field = "idp-certificate-authority-data: ";
        let text = text.replace(&format!("{field}{right}"), &format!("{field}{wrong}"));
        std::fs::write(&path, text).unwrap();
        let error = scene.refused(&scene.client(&path)).await;
        assert!(error.contains(expected), "{error}");
    }
    assert!(scene.issuer.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_in_a_file_works() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let refresh = scene.refresh_token("refresh token");
    scene.issuer.grant(&refresh, Some(&new), None);
    let ca = scene.dir.path().join("ca.pem");
    std::fs::write(&ca, scene.ca.pem()).unwrap();
    let data = format!("idp-certificate-authority-data: {}", STANDARD.encode(scene.ca.pem()));
    let path = scene.logged_in(&old, &refresh);
    let file = format!("idp-certificate-authority: {}", ca.display());
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace(&data, &file)).unwrap();
    assert_eq!(status(&scene.client(&path)).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_does_not_answer_has_thirty_seconds() {
    let clock = ManualClock::new(SystemClock::new().now());
    let scene = Scene::at(Arc::new(clock.clone()));
    let (old, refresh) = (scene.id_token("old id token", -60), scene.refresh_token("refresh token"));
    scene.issuer.order("/token", Order::Stall);
    let client = scene.client(&scene.logged_in(&old, &refresh));
    let patience = async {
        scene.issuer.until(|asked| asked.iter().any(|asked| asked.path == "/token")).await;
        clock.advance(Duration::from_secs(31));
    };
    let (error, ()) = tokio::join!(scene.refused(&client), patience);
    assert_eq!(error, "the issuer did not renew the id-token within 30 seconds");
}
