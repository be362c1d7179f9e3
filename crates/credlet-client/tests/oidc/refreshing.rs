//! Use and refresh of ID tokens.

use std::sync::Arc;
use std::time::Duration;

use credlet_client::Client;
use credlet_exec::{Clock as _, ManualClock, SystemClock};
use credlet_testkit::issuer::ResponseOverride;
use http::StatusCode;

use crate::{Sandbox, resolve, status};

#[tokio::test(flavor = "multi_thread")]
async fn uses_valid_id_token_without_request() {
    let sandbox = Sandbox::new();
    let id = sandbox.id_token("id token", 600);
    // Whatever is wrong with the rest: it does not matter yet.
    let path = sandbox.kubeconfig(&format!("        id-token: {id}\n        idp-issuer-url: http://nowhere.invalid"));
    let client = sandbox.client(&path);
    sandbox.watch.text(format!("{client:?}"));
    for _ in 0..3 {
        assert_eq!(status(&client).await, StatusCode::OK);
        assert_eq!(sandbox.server.last_request().bearer(), Some(&*id));
    }
    assert!(sandbox.issuer.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshes_token_within_leeway_of_expiry() {
    for seconds in [Some(-60), Some(5), None] {
        let sandbox = Sandbox::new();
        let old = seconds.map_or("opaque".to_owned(), |seconds| sandbox.id_token("old id token", seconds));
        let (refresh, new) = (sandbox.refresh_token("refresh token"), sandbox.id_token("new id token", 600));
        sandbox.issuer.grant(&refresh, Some(&new), None);
        let client = sandbox.client(&sandbox.logged_in(&old, &refresh));
        for _ in 0..3 {
            assert_eq!(status(&client).await, StatusCode::OK);
            assert_eq!(sandbox.server.last_request().bearer(), Some(&*new));
        }
        assert_eq!(sandbox.issuer.requests().len(), 2, "discovery and tokens");
        let asked = &sandbox.issuer.requests()[1];
        assert_eq!((&*asked.form["grant_type"], &asked.form["refresh_token"]), ("refresh_token", &refresh));
        assert!(!asked.form.contains_key("client_secret") && !asked.form.contains_key("scope"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshes_rejected_token_and_retries() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", 600), sandbox.id_token("new id token", 600));
    let refresh = sandbox.refresh_token("refresh token");
    sandbox.issuer.grant(&refresh, Some(&new), None);
    sandbox.server.accept_token(&*new);
    let client = sandbox.client(&sandbox.logged_in(&old, &refresh));
    assert_eq!(status(&client).await, StatusCode::OK);
    assert_eq!((sandbox.server.counts().requests, sandbox.issuer.seen("/token")), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshes_in_background_before_expiry() {
    let clock = ManualClock::new(SystemClock::new().now());
    let sandbox = Sandbox::at(Arc::new(clock.clone()));
    let (old, new) = (sandbox.id_token("old id token", 1000), sandbox.id_token("new id token", 9000));
    let refresh = sandbox.refresh_token("refresh token");
    sandbox.issuer.grant(&refresh, Some(&new), None);
    let client = sandbox.client(&sandbox.logged_in(&old, &refresh));
    assert_eq!(status(&client).await, StatusCode::OK);
    assert_eq!(sandbox.issuer.seen("/token"), 0);
    clock.advance(Duration::from_secs(995));
    assert_eq!(status(&client).await, StatusCode::OK);
    sandbox.wait_for_requests(|asked| asked.iter().any(|asked| asked.path == "/token")).await;
    while sandbox.server.last_request().bearer() == Some(&*old) {
        assert_eq!(status(&client).await, StatusCode::OK);
    }
    assert_eq!(sandbox.server.last_request().bearer(), Some(&*new));
    assert_eq!(sandbox.issuer.seen("/token"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_share_one_refresh() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let refresh = sandbox.refresh_token("refresh token");
    sandbox.issuer.grant(&refresh, Some(&new), None);
    let resolved = resolve(&sandbox.logged_in(&old, &refresh));
    let options = sandbox.options();
    let clients: Vec<_> = (0..8).map(|_| Client::new(&resolved, options.clone()).unwrap()).collect();
    assert_eq!(options.authenticators.len(), 1);
    let requests: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(async move { status(&client).await })).collect();
    for request in requests {
        assert_eq!(request.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(sandbox.issuer.seen("/token"), 1);
    assert!(options.authenticators.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_client_secret_in_form_body() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let refresh = sandbox.refresh_token("refresh token");
    sandbox.issuer.grant(&refresh, Some(&new), None);
    sandbox.issuer.override_response("/token", ResponseOverride::SecretInForm);
    let client = sandbox.client(&sandbox.logged_in(&old, &refresh));
    assert_eq!(status(&client).await, StatusCode::OK);
    let asked = sandbox.issuer.requests();
    assert!(asked[1].authorization().is_some() && asked[2].authorization().is_none());
    assert_eq!(asked[2].form["client_id"], "credlet");
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_discovery_redirect_on_same_host() {
    let sandbox = Sandbox::new();
    let (old, new) = (sandbox.id_token("old id token", -60), sandbox.id_token("new id token", 600));
    let refresh = sandbox.refresh_token("refresh token");
    sandbox.issuer.grant(&refresh, Some(&new), None);
    let metadata = format!(r#"{{"token_endpoint":"{}/token"}}"#, sandbox.issuer.url());
    sandbox
        .issuer
        .override_response("/.well-known/openid-configuration", ResponseOverride::RedirectTo("/moved".into()));
    sandbox.issuer.override_response("/moved", ResponseOverride::RedirectTo(format!("{}/again", sandbox.issuer.url())));
    sandbox.issuer.override_response("/again", ResponseOverride::Respond(200, metadata.into()));
    assert_eq!(status(&sandbox.client(&sandbox.logged_in(&old, &refresh))).await, StatusCode::OK);
}
