//! With a refresh token, which the issuer replaces each time.

use credlet_plugins::oidc::Options;

use crate::Scene;
use crate::provider::Fault;

#[tokio::test]
async fn an_expired_token_is_renewed_without_a_person_and_the_new_refresh_token_is_kept() {
    let scene = Scene::new();
    let first = scene.token().await;
    for round in 1..4 {
        scene.clock.advance(3550);
        scene.provider.state().ahead += 3550;
        let next = scene.token().await;
        assert_ne!(next.token, first.token);
        let state = scene.provider.state();
        let [only] = state.refresh_tokens.as_slice() else { panic!("each one is used up") };
        assert_eq!(scene.kept()["refresh_token"], only.as_str());
        assert_eq!(state.seen["/token"], 1 + round);
    }
    assert_eq!(scene.browser.windows(), 1);
}

#[tokio::test]
async fn a_new_refresh_token_is_kept_even_if_the_token_beside_it_is_not_believed() {
    let scene = Scene::new();
    scene.token().await;
    let before = scene.kept();
    scene.clock.advance(3550);
    scene.provider.state().ahead += 3550;
    scene.provider.fail(Fault::OtherKey);
    assert!(scene.refused().await.contains("its signature is wrong"));
    let after = scene.kept();
    assert_ne!(after["refresh_token"], before["refresh_token"]);
    assert_eq!(after["token"], before["token"]);
    scene.provider.fail(Fault::None);
    scene.token().await;
    assert_eq!(scene.browser.windows(), 1);
}

#[tokio::test]
async fn a_renewed_token_of_another_person_is_not_believed() {
    let scene = Scene::new();
    scene.token().await;
    scene.clock.advance(3550);
    scene.provider.state().ahead += 3550;
    scene.provider.fail(Fault::OtherPerson);
    assert!(scene.refused().await.contains("it names another person than before"));
}

#[tokio::test]
async fn a_refresh_token_that_is_refused_leads_to_one_login() {
    let scene = Scene::new();
    scene.token().await;
    scene.provider.state().refresh_tokens.clear();
    scene.clock.advance(3550);
    scene.provider.state().ahead += 3550;
    scene.token().await;
    assert_eq!(scene.browser.windows(), 2);
    assert!(scene.heard.all().contains("The login at the issuer has ended"));
    scene.token().await;
    assert_eq!(scene.browser.windows(), 2);
}

#[tokio::test]
async fn while_the_issuer_is_down_a_token_serves_to_its_very_end() {
    let scene = Scene::new();
    let first = scene.token().await;
    scene.provider.fail(Fault::Discovery500);
    scene.clock.advance(3580);
    assert_eq!(scene.token().await, first);
    scene.clock.advance(30);
    assert!(scene.refused().await.contains("answered 500"));
    assert_eq!(scene.browser.windows(), 1, "a browser would not help");
}

#[tokio::test]
async fn force_refresh_renews_what_is_still_good() {
    let scene = Scene::new();
    let first = scene.token().await;
    let options = Options { force_refresh: true, ..scene.options() };
    assert_ne!(scene.run(&options).await.unwrap().token, first.token);
    assert_eq!(scene.browser.windows(), 1);
}
