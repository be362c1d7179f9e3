//! By a browser on this machine, and without a person.

use credlet_plugins::oidc::{self, GrantType, Options, Settings};

use crate::Scene;
use crate::browser::get;
use crate::provider::parse;

#[tokio::test]
async fn a_login_in_the_browser_gives_a_token_that_ends_when_it_says() {
    let scene = Scene::new();
    let status = scene.token().await;
    let ends = credlet_api::oidc::expiry(&status.token).unwrap();
    assert_eq!(status.expiration_timestamp, Some(ends));
    assert_eq!(scene.browser.windows(), 1);
    let page = scene.browser.page().await;
    for text in ["HTTP/1.1 200", "You are logged in", "ada@example.test", "https://api.blue.example:6443", "no-store"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<script"), "{page}");
}

#[tokio::test]
async fn the_next_run_asks_nobody() {
    let scene = Scene::new();
    let first = scene.token().await;
    let asked = scene.provider.state().seen.clone();
    assert_eq!(scene.token().await, first);
    assert_eq!(scene.provider.state().seen, asked);
}

#[tokio::test]
async fn the_browsers_arguments_have_nothing_of_the_login_in_them() {
    let scene = Scene::new();
    scene.token().await;
    let started = scene.browser.started.lock().unwrap()[0].join(" ");
    let url = started.rsplit(' ').next().unwrap();
    assert!(url.starts_with("http://localhost:") && url.ends_with('/'), "{url}");
}

#[tokio::test]
async fn whoever_has_no_browser_is_told_what_to_open() {
    let scene = Scene::new();
    let options = Options { skip_open_browser: true, ..scene.options() };
    let (outcome, ()) = tokio::join!(scene.run(&options), async {
        let url = loop {
            let said = scene.heard.all();
            if let Some(url) = said.split_whitespace().find(|word| word.starts_with("http://localhost")) {
                break url.to_owned();
            }
            tokio::task::yield_now().await;
        };
        let answer = tokio::task::spawn_blocking(move || {
            // A page on the web that shows our address as a picture, and a name that was bent to lead here.
            assert!(get(&url, "sec-fetch-dest: image\r\n").starts_with("HTTP/1.1 403"));
            assert!(get(&format!("{url}favicon.ico"), "").starts_with("HTTP/1.1 404"));
            let start = get(&url, "");
            let to = start.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
            let back = get(&to, "");
            let back = back.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
            (to, get(&back, ""))
        });
        let (to, page) = answer.await.unwrap();
        let asked = parse(to.split_once('?').unwrap().1);
        assert_eq!(asked["scope"], "email offline_access openid");
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!((asked["response_type"].as_str(), asked["prompt"].as_str()), ("code", "consent"));
        assert!(page.contains("You are logged in"));
    });
    outcome.unwrap();
    assert_eq!(scene.browser.windows(), 0);
}

#[tokio::test]
async fn foreign_names_on_the_page_are_text() {
    let scene = Scene::new();
    scene.provider.state().account = Some("<b onmouseover=x>ada</b>\u{202e}".into());
    scene.token().await;
    let page = scene.browser.page().await;
    assert!(page.contains("&lt;b onmouseover=x&gt;ada&lt;/b&gt;U+202E"), "{page}");
}

#[tokio::test]
async fn a_client_logs_in_by_itself_with_its_secret_in_the_header() {
    let scene = Scene::new();
    let secret = scene.watch.secret("client secret");
    let options = Options { grant_type: GrantType::ClientCredentials, client_secret: Some(secret), ..scene.options() };
    let status = scene.run(&options).await.unwrap();
    assert!(status.expiration_timestamp.is_some());
    assert_eq!(scene.browser.windows(), 0);
    let (form, header) = scene.provider.state().forms[0].clone();
    assert!(header.starts_with("Basic ") && !form.contains_key("client_secret"));
    assert_eq!(scene.run(&options).await.unwrap(), status, "kept");
}

#[tokio::test]
async fn the_access_token_is_given_to_those_who_want_it_and_ends_when_the_issuer_says() {
    let scene = Scene::new();
    let options = Options { use_access_token: true, ..scene.options() };
    let status = scene.run(&options).await.unwrap();
    assert!(!status.token.expose().starts_with("ey"));
    let life = status.expiration_timestamp.unwrap().as_second() - credlet_core::Clock::now(&*scene.clock).as_second();
    assert!((0..=60).contains(&life), "{life}");
}

#[tokio::test]
async fn status_and_logout_know_the_login_and_the_refresh_token_is_given_back() {
    let scene = Scene::new();
    let (world, options) = (scene.world(), scene.options());
    let settings = Settings::new(&options, &*world.env).unwrap();
    let session = oidc::log_in(&settings, &scene.asked(), &world, &scene.talk()).await.unwrap();
    assert_eq!((session.account.as_str(), session.good, session.renewable), ("ada@example.test", true, true));
    let now = credlet_core::Clock::now(&*scene.clock);
    let directory = scene.dir.path().join("tokens");
    assert_eq!(oidc::sessions(&directory, now).unwrap(), [session]);

    let ended = oidc::log_out(&settings, &world, &scene.talk()).await.unwrap();
    assert!(matches!(ended.revoked, Some(Ok(()))));
    {
        let state = scene.provider.state();
        assert_eq!(state.revoked, state.refresh_tokens);
    }
    assert!(oidc::sessions(&directory, now).unwrap().is_empty());
    let again = oidc::log_out(&settings, &world, &scene.talk()).await.unwrap_err();
    assert_eq!(again.to_string(), "there is no login with these settings");
}
