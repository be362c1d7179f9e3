//! Rejected responses and tokens, and their error messages.

use credlet_oidc::OidcOptions;
use credlet_testkit::issuer::IssuerFault;

use crate::Sandbox;

/// Asserts that a login with this fault fails with this message and stores no token.
async fn assert_rejected(fault: IssuerFault, message: &str) {
    let sandbox = Sandbox::new();
    sandbox.issuer.fail(fault);
    let error = sandbox.error_text().await;
    assert!(error.contains(message), "{fault:?}: {error}");
    let dir = sandbox.dir.path().join("tokens");
    if std::fs::read_dir(dir).unwrap().any(|file| file.unwrap().path().extension().is_none()) {
        assert_eq!(sandbox.stored()["token"], "", "{fault:?}");
    }
    sandbox.issuer.fail(IssuerFault::None);
}

#[tokio::test]
async fn issuer_mismatch_stops_the_login() {
    let sandbox = Sandbox::new();
    sandbox.issuer.fail(IssuerFault::OtherIssuer);
    assert!(sandbox.error_text().await.contains("calls itself `https://evil.example`"));
    assert_eq!((sandbox.browser.windows(), sandbox.issuer.seen("/auth")), (0, 0));
}

#[tokio::test]
async fn invalid_issuer_responses_are_reported() {
    assert_rejected(IssuerFault::DiscoveryHtml, "invalid response of the issuer's discovery document at 127.0.0.1:")
        .await;
    assert_rejected(IssuerFault::DiscoveryHuge, "exceeds 1024 KiB").await;
    assert_rejected(IssuerFault::Discovery500, "unexpected status 500").await;
    assert_rejected(IssuerFault::DiscoveryHangs, "timed out after 30 s").await;
    assert_rejected(IssuerFault::TokenHtml, "invalid response of the issuer's token endpoint").await;
    assert_rejected(IssuerFault::NoIdToken, "missing id_token").await;
}

#[tokio::test]
async fn invalid_callbacks_are_rejected() {
    assert_rejected(IssuerFault::Iss, "the response is of another issuer").await;
    assert_rejected(IssuerFault::NoIss, "the response lacks `iss`").await;
    assert_rejected(IssuerFault::TwoCodes, "neither a code nor an error").await;
    assert_rejected(IssuerFault::Denied, "the login was refused at the issuer (access_denied)").await;
    assert_rejected(IssuerFault::UsedCode, "rejected the code of this login: it is expired, was already used").await;
}

#[tokio::test]
async fn tokens_of_other_logins_are_rejected() {
    assert_rejected(IssuerFault::Nonce, "nonce mismatch").await;
    assert_rejected(IssuerFault::Issuer, "issuer mismatch: it was issued by `https://evil.example`").await;
    assert_rejected(IssuerFault::Audience, "audience mismatch: it is for `another third`, not for `kube`").await;
    assert_rejected(IssuerFault::Azp, "audience mismatch: it is for `another`, not for `kube`").await;
}

#[tokio::test]
async fn forged_signatures_are_rejected() {
    assert_rejected(IssuerFault::AlgNone, "unsupported signature algorithm `none`").await;
    assert_rejected(IssuerFault::Hmac, "unsupported signature algorithm `HS256`").await;
    assert_rejected(IssuerFault::OtherKey, "invalid signature").await;
    assert_rejected(IssuerFault::Changed, "invalid signature").await;
}

#[tokio::test]
async fn clock_skew_of_the_issuer_is_reported() {
    assert_rejected(IssuerFault::Expired, "already expired 60 min ago according to the local clock").await;
    assert_rejected(IssuerFault::NotYet, "not valid before ").await;
}

#[tokio::test]
async fn local_clock_skew_is_reported_with_hint() {
    for (offset, message) in [(2 * 3600, "already expired 60 min ago"), (-3600, "not valid before ")] {
        let sandbox = Sandbox::new();
        sandbox.clock.advance(offset);
        let error = sandbox.run(&sandbox.options()).await.unwrap_err();
        assert!(error.to_chained_string().contains(message), "{}", error.to_chained_string());
        assert!(error.hint().unwrap().contains("set this machine's clock"));
    }
}

#[tokio::test]
async fn browser_shows_the_error() {
    let sandbox = Sandbox::new();
    sandbox.issuer.fail(IssuerFault::Nonce);
    sandbox.error_text().await;
    let page = sandbox.browser.page().await;
    for text in ["HTTP/1.1 400", "You are not logged in", "nonce mismatch", "What to do"] {
        assert!(page.to_lowercase().contains(&text.to_lowercase()), "{page}");
    }
}

#[tokio::test]
async fn port_in_use_fails_before_browser_opens() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let options = OidcOptions { listen_address: vec![address.clone()], ..sandbox.options() };
    let error = sandbox.run(&options).await.unwrap_err().to_chained_string();
    assert!(error.contains(&address), "{error}");
    assert_eq!(sandbox.browser.windows(), 0);
}
