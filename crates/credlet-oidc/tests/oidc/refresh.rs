//! Refresh tokens, which the issuer rotates.

use credlet_oidc::OidcOptions;
use credlet_testkit::issuer::IssuerFault;

use crate::Sandbox;

#[tokio::test]
async fn refresh_stores_the_rotated_refresh_token() {
    let sandbox = Sandbox::new();
    let first = sandbox.token().await;
    for round in 1..4 {
        sandbox.clock.advance(3550);
        sandbox.issuer.state().ahead += 3550;
        let next = sandbox.token().await;
        assert_ne!(next.token, first.token);
        let state = sandbox.issuer.state();
        let [only] = state.refresh_tokens.as_slice() else { panic!("each one is used once") };
        assert_eq!(sandbox.stored()["refresh_token"], only.as_str());
        assert_eq!(sandbox.issuer.seen("/token"), 1 + round);
    }
    assert_eq!(sandbox.browser.windows(), 1);
}

#[tokio::test]
async fn rotated_token_is_stored_despite_invalid_id_token() {
    let sandbox = Sandbox::new();
    sandbox.token().await;
    let before = sandbox.stored();
    sandbox.clock.advance(3550);
    sandbox.issuer.state().ahead += 3550;
    sandbox.issuer.fail(IssuerFault::OtherKey);
    assert!(sandbox.error_text().await.contains("invalid signature"));
    let after = sandbox.stored();
    assert_ne!(after["refresh_token"], before["refresh_token"]);
    assert_eq!(after["token"], before["token"]);
    sandbox.issuer.fail(IssuerFault::None);
    sandbox.token().await;
    assert_eq!(sandbox.browser.windows(), 1);
}

#[tokio::test]
async fn refreshed_token_of_another_user_is_rejected() {
    let sandbox = Sandbox::new();
    sandbox.token().await;
    sandbox.clock.advance(3550);
    sandbox.issuer.state().ahead += 3550;
    sandbox.issuer.fail(IssuerFault::OtherSubject);
    assert!(sandbox.error_text().await.contains("subject mismatch"));
}

#[tokio::test]
async fn rejected_refresh_token_leads_to_one_login() {
    let sandbox = Sandbox::new();
    sandbox.token().await;
    sandbox.issuer.state().refresh_tokens.clear();
    sandbox.clock.advance(3550);
    sandbox.issuer.state().ahead += 3550;
    sandbox.token().await;
    assert_eq!(sandbox.browser.windows(), 2);
    assert!(sandbox.output.all().contains("The login at the issuer has expired"));
    sandbox.token().await;
    assert_eq!(sandbox.browser.windows(), 2);
}

#[tokio::test]
async fn token_is_used_until_expiry_while_issuer_is_down() {
    let sandbox = Sandbox::new();
    let first = sandbox.token().await;
    sandbox.issuer.fail(IssuerFault::Discovery500);
    sandbox.clock.advance(3580);
    assert_eq!(sandbox.token().await, first);
    sandbox.clock.advance(30);
    assert!(sandbox.error_text().await.contains("unexpected status 500"));
    assert_eq!(sandbox.browser.windows(), 1, "a browser would not help");
}

#[tokio::test]
async fn force_refresh_replaces_a_valid_token() {
    let sandbox = Sandbox::new();
    let first = sandbox.token().await;
    let options = OidcOptions { force_refresh: true, ..sandbox.options() };
    assert_ne!(sandbox.run(&options).await.unwrap().token, first.token);
    assert_eq!(sandbox.browser.windows(), 1);
}
