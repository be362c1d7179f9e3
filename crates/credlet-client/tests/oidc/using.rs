//! Which token goes on a request, and when there is a new one.

use std::sync::Arc;
use std::time::Duration;

use credlet_client::Client;
use credlet_core::{Clock as _, ManualClock, SystemClock};
use http::StatusCode;

use crate::issuer::Order;
use crate::{Scene, resolve, status};

#[tokio::test(flavor = "multi_thread")]
async fn an_id_token_that_is_still_good_is_used_without_asking_anybody() {
    let scene = Scene::new();
    let id = scene.id_token("id token", 600);
    // Whatever is wrong with the rest: it does not matter yet.
    let path = scene.kubeconfig(&format!("        id-token: {id}\n        idp-issuer-url: http://nowhere.invalid"));
    let client = scene.client(&path);
    scene.watch.text(format!("{client:?}"));
    for _ in 0..3 {
        assert_eq!(status(&client).await, StatusCode::OK);
        assert_eq!(scene.server.last_request().bearer(), Some(&*id));
    }
    assert!(scene.issuer.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_expired_or_does_so_within_ten_seconds_or_does_not_say_is_renewed() {
    for seconds in [Some(-60), Some(5), None] {
        let scene = Scene::new();
        let old = seconds.map_or("opaque".to_owned(), |seconds| scene.id_token("old id token", seconds));
        let (refresh, new) = (scene.refresh_token("refresh token"), scene.id_token("new id token", 600));
        scene.issuer.grant(&refresh, Some(&new), None);
        let client = scene.client(&scene.logged_in(&old, &refresh));
        for _ in 0..3 {
            assert_eq!(status(&client).await, StatusCode::OK);
            assert_eq!(scene.server.last_request().bearer(), Some(&*new));
        }
        assert_eq!(scene.issuer.asked().len(), 2, "discovery and tokens");
        let asked = &scene.issuer.asked()[1];
        assert_eq!((&*asked.form["grant_type"], &asked.form["refresh_token"]), ("refresh_token", &refresh));
        assert!(!asked.form.contains_key("client_secret") && !asked.form.contains_key("scope"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_is_renewed_and_the_request_sent_again() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", 600), scene.id_token("new id token", 600));
    let refresh = scene.refresh_token("refresh token");
    scene.issuer.grant(&refresh, Some(&new), None);
    scene.server.accept_token(&*new);
    let client = scene.client(&scene.logged_in(&old, &refresh));
    assert_eq!(status(&client).await, StatusCode::OK);
    assert_eq!((scene.server.counts().requests, scene.issuer.refreshes()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_before_it_ends_while_requests_go_on_with_it() {
    let clock = ManualClock::new(SystemClock::new().now());
    let scene = Scene::at(Arc::new(clock.clone()));
    let (old, new) = (scene.id_token("old id token", 1000), scene.id_token("new id token", 9000));
    let refresh = scene.refresh_token("refresh token");
    scene.issuer.grant(&refresh, Some(&new), None);
    let client = scene.client(&scene.logged_in(&old, &refresh));
    assert_eq!(status(&client).await, StatusCode::OK);
    assert_eq!(scene.issuer.refreshes(), 0);
    clock.advance(Duration::from_secs(995));
    assert_eq!(status(&client).await, StatusCode::OK);
    scene.issuer.until(|asked| asked.iter().any(|asked| asked.path == "/token")).await;
    while scene.server.last_request().bearer() == Some(&*old) {
        assert_eq!(status(&client).await, StatusCode::OK);
    }
    assert_eq!(scene.server.last_request().bearer(), Some(&*new));
    assert_eq!(scene.issuer.refreshes(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_one_configuration_share_one_renewal() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let refresh = scene.refresh_token("refresh token");
    scene.issuer.grant(&refresh, Some(&new), None);
    let resolved = resolve(&scene.logged_in(&old, &refresh));
    let options = scene.options();
    let clients: Vec<_> = (0..8).map(|_| Client::new(&resolved, options.clone()).unwrap()).collect();
    assert_eq!(options.authenticators.len(), 1);
    let requests: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(async move { status(&client).await })).collect();
    for request in requests {
        assert_eq!(request.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(scene.issuer.refreshes(), 1);
    assert!(options.authenticators.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_wants_the_secret_in_the_form_gets_it_there() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let refresh = scene.refresh_token("refresh token");
    scene.issuer.grant(&refresh, Some(&new), None);
    scene.issuer.order("/token", Order::FormOnly);
    let client = scene.client(&scene.logged_in(&old, &refresh));
    assert_eq!(status(&client).await, StatusCode::OK);
    let asked = scene.issuer.asked();
    assert!(asked[1].authorization.is_some() && asked[2].authorization.is_none());
    assert_eq!(asked[2].form["client_id"], "credlet");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discovery_document_may_have_moved_on_the_same_server() {
    let scene = Scene::new();
    let (old, new) = (scene.id_token("old id token", -60), scene.id_token("new id token", 600));
    let refresh = scene.refresh_token("refresh token");
    scene.issuer.grant(&refresh, Some(&new), None);
    let metadata = format!(r#"{{"token_endpoint":"{}/token"}}"#, scene.issuer.url());
    scene.issuer.order("/.well-known/openid-configuration", Order::RedirectTo("/moved".into()));
    scene.issuer.order("/moved", Order::RedirectTo(format!("{}/again", scene.issuer.url())));
    scene.issuer.order("/again", Order::Answer(200, metadata.into()));
    assert_eq!(status(&scene.client(&scene.logged_in(&old, &refresh))).await, StatusCode::OK);
}
