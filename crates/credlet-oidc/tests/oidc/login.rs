//! Logins with a browser and with client credentials, and logout.

use credlet_oidc::{GrantType, OidcOptions, OidcSettings};
use credlet_testkit::browser::BrowserProfile;
use credlet_testkit::issuer::parse_form;

use crate::Sandbox;

#[tokio::test]
async fn browser_login_returns_token_with_expiry() {
    let sandbox = Sandbox::new();
    let status = sandbox.token().await;
    let expiry = credlet_api::oidc::jwt_expiry(&status.token).unwrap();
    assert_eq!(status.expiration_timestamp, Some(expiry));
    assert_eq!(sandbox.browser.windows(), 1);
    let page = sandbox.browser.page().await;
    for text in ["HTTP/1.1 200", "You are logged in", "ada@example.test", "https://api.blue.example:6443", "no-store"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<script"), "{page}");
}

#[tokio::test]
async fn next_run_uses_the_stored_token() {
    let sandbox = Sandbox::new();
    let first = sandbox.token().await;
    let requests = sandbox.issuer.requests().len();
    assert_eq!(sandbox.token().await, first);
    assert_eq!(sandbox.issuer.requests().len(), requests);
}

#[tokio::test]
async fn browser_arguments_contain_no_login_secrets() {
    let sandbox = Sandbox::new();
    sandbox.token().await;
    let started = sandbox.browser.started.lock().unwrap()[0].join(" ");
    let url = started.rsplit(' ').next().unwrap();
    let (address, token) = url.strip_prefix("http://").unwrap().split_once("/login/").unwrap();
    assert!(address.parse::<std::net::SocketAddr>().unwrap().ip().is_loopback(), "{url}");
    // Nothing that the issuer receives: neither state, nonce nor challenge.
    let seen = sandbox.issuer.requests_for("/auth");
    assert_eq!((seen.len(), seen[0].query.values().any(|value| value.contains(token))), (1, false), "{url}");
}

#[tokio::test]
async fn prints_start_url_without_browser() {
    let sandbox = Sandbox::new();
    let options = OidcOptions { skip_open_browser: true, ..sandbox.options() };
    let (outcome, ()) = tokio::join!(sandbox.run(&options), async {
        let url = sandbox.start_url().await;
        let issuer = sandbox.issuer.url().to_owned();
        let visit = tokio::task::spawn_blocking(move || {
            let mut browser = BrowserProfile::default();
            let to = browser.follow_to(&url, &issuer);
            (to.clone(), browser.follow(&to))
        });
        let (to, page) = visit.await.unwrap();
        let query = parse_form(to.split_once('?').unwrap().1);
        assert_eq!(query["scope"], "email offline_access openid");
        assert_eq!(query["code_challenge_method"], "S256");
        assert_eq!((query["response_type"].as_str(), query["prompt"].as_str()), ("code", "consent"));
        assert!(page.contains("You are logged in"));
    });
    outcome.unwrap();
    assert_eq!(sandbox.browser.windows(), 0);
}

#[tokio::test]
async fn untrusted_account_name_is_escaped() {
    let sandbox = Sandbox::new();
    sandbox.issuer.state().account = Some("<b onmouseover=x>ada</b>\u{202e}".into());
    sandbox.token().await;
    let page = sandbox.browser.page().await;
    assert!(page.contains("&lt;b onmouseover=x&gt;ada&lt;/b&gt;U+202E"), "{page}");
}

#[tokio::test]
async fn client_credentials_use_basic_authentication() {
    let sandbox = Sandbox::new();
    let secret = sandbox.watch.secret("client secret");
    let options =
        OidcOptions { grant_type: GrantType::ClientCredentials, client_secret: Some(secret), ..sandbox.options() };
    let status = sandbox.run(&options).await.unwrap();
    assert!(status.expiration_timestamp.is_some());
    assert_eq!(sandbox.browser.windows(), 0);
    let request = &sandbox.issuer.requests_for("/token")[0];
    assert!(request.authorization().unwrap().starts_with("Basic ") && !request.form.contains_key("client_secret"));
    assert_eq!(sandbox.run(&options).await.unwrap(), status, "stored");
}

#[tokio::test]
async fn access_token_expires_with_expires_in() {
    let sandbox = Sandbox::new();
    let options = OidcOptions { use_access_token: true, ..sandbox.options() };
    let status = sandbox.run(&options).await.unwrap();
    assert!(!status.token.expose().starts_with("ey"));
    let lifetime =
        status.expiration_timestamp.unwrap().as_second() - credlet_exec::Clock::now(&*sandbox.clock).as_second();
    assert!((0..=60).contains(&lifetime), "{lifetime}");
}

#[tokio::test]
async fn logout_revokes_the_refresh_token() {
    let sandbox = Sandbox::new();
    let (platform, options) = (sandbox.platform(), sandbox.options());
    let settings = OidcSettings::new(&options, &*platform.env).unwrap();
    let session = credlet_oidc::log_in(&settings, &sandbox.request(), &platform, &sandbox.output()).await.unwrap();
    assert_eq!((session.account.as_str(), session.valid, session.renewable), ("ada@example.test", true, true));
    let now = credlet_exec::Clock::now(&*sandbox.clock);
    let directory = sandbox.dir.path().join("tokens");
    assert_eq!(credlet_oidc::sessions(&directory, now).unwrap(), [session]);

    let result = credlet_oidc::log_out(&settings, &platform, &sandbox.output()).await.unwrap();
    assert!(matches!(result.revoked, Some(Ok(()))));
    {
        let state = sandbox.issuer.state();
        assert_eq!(state.revoked, state.refresh_tokens);
    }
    assert!(credlet_oidc::sessions(&directory, now).unwrap().is_empty());
    let again = credlet_oidc::log_out(&settings, &platform, &sandbox.output()).await.unwrap_err();
    assert_eq!(again.to_string(), "not logged in with these settings");
}
