//! Signers behind the proxy, and what happens when the API server says no.

use std::sync::Arc;
use std::time::Duration;

use credlet_client::conn::Crypto;
use credlet_client::kubeconfig::{Kubeconfig, Overrides};
use credlet_client::{Authenticators, ClientOptions};
use credlet_core::{SystemClock, SystemEnv, World};
use credlet_proxy::sign::{Exec, File, Headers, SignError, Signer, Signing};
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::server::{ClientCertificates, Order, Server as Upstream};
use http::{Request, StatusCode};

use crate::support::{Proxy, Simple, text, whole, within};

fn exec(plugin: &Plugin) -> Exec {
    let text = format!(
        "current-context: blue
contexts: [{{name: blue, context: {{cluster: blue, user: ada}}}}]
clusters: [{{name: blue, cluster: {{server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}}}]
users: [{{name: ada, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: {}}}}}}}]",
        plugin.command().display()
    );
    let kubeconfig = Kubeconfig::from_bytes(text.as_bytes(), &SystemEnv).unwrap();
    let resolved = kubeconfig.resolve(&Overrides::default(), &SystemEnv).unwrap();
    let mut options = ClientOptions::new(Crypto::aws_lc_rs());
    options.authenticators = Arc::new(Authenticators::new(World::system()));
    Exec::new(options.authenticator(&resolved).unwrap().unwrap(), Arc::new(SystemClock::new()), None)
}

#[tokio::test]
async fn a_plugin_behind_the_proxy_is_run_once_for_all_and_again_when_its_token_is_refused() {
    let watch = Watch::new();
    let (old, new) = (watch.secret("old token"), watch.secret("new token"));
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    upstream.accept_token(old.expose());
    let plugin = Plugin::answering(old.expose()).on_the_next_run().answers(new.expose());
    let proxy = Proxy::start(exec(&plugin), &upstream, &ca).await;
    for _ in 0..3 {
        assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
    }
    assert_eq!(plugin.runs(), 1);
    upstream.revoke_token(old.expose());
    upstream.accept_token(new.expose());
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK, "the client notices nothing");
    assert_eq!(plugin.runs(), 2);
    assert_eq!(upstream.last_request().bearer(), Some(new.expose()));
}

#[tokio::test]
async fn whoever_is_always_refused_is_tried_twice_and_the_api_servers_word_stands() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    upstream.revoke_all();
    let plugin = Plugin::answering(token.expose());
    let proxy = Proxy::start(exec(&plugin), &upstream, &ca).await;
    for _ in 0..10 {
        let response = proxy.send(proxy.get("/version")).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert!(response.headers().get("exec-proxy-error").is_none());
    }
    assert!(plugin.runs() <= 3, "{} runs", plugin.runs());
    assert!(upstream.counts().requests <= 20);
}

/// One that always has something else to try.
#[derive(Debug, Default)]
struct Hopeful(Simple);

impl Signer for Hopeful {
    fn credential(&self) -> Signing<'_, credlet_client::conn::Credential> {
        self.0.credential()
    }

    fn refused(&self, _: u64) -> Signing<'_, bool> {
        Box::pin(async { Ok(true) })
    }
}

#[tokio::test]
async fn a_request_is_sent_again_once_and_only_if_its_body_can_be_had_again() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start(Hopeful(Simple::nothing()), &upstream, &ca).await;
    upstream.next(10, Order::Status(401));
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(upstream.counts().requests, 2);
    let post = Request::post("/echo").header("host", &proxy.authority).body(whole("once")).unwrap();
    assert_eq!(proxy.send(post).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(upstream.counts().requests, 3);
}

#[tokio::test]
async fn a_plugin_that_fails_is_told_of_without_its_secrets_and_never_as_a_401() {
    let watch = Watch::new();
    let secret = watch.secret("token");
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let plugin = Plugin::new().prints(secret.expose()).exits(3);
    let proxy = Proxy::start(exec(&plugin), &upstream, &ca).await;
    let response = proxy.send(proxy.get("/version")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["exec-proxy-error"], "signer");
    watch.text(text(response).await);
    assert_eq!(upstream.counts().requests, 0);
}

#[tokio::test]
async fn a_certificate_in_files_is_shown_to_the_api_server_and_replaced_while_a_watch_goes_on() {
    let watch = Watch::new();
    let (ca, home) = (Ca::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).client_certificates(ClientCertificates::Required).start();
    let (certificate, key) = (home.path().join("tls.crt"), home.path().join("tls.key"));
    let put = |name: &str| {
        let identity = ca.client(name).issue();
        watch.adopt("key", identity.key_pem());
        std::fs::write(&certificate, identity.cert_pem()).unwrap();
        std::fs::write(&key, identity.key_pem()).unwrap();
    };
    put("ada");
    upstream.accept_client("ada");
    let signer = File::new(certificate.clone(), key.clone(), Crypto::aws_lc_rs(), Arc::new(SystemClock::new()));
    let proxy = Proxy::start(signer, &upstream, &ca).await;
    let mut going_on = proxy.send(proxy.get("/watch?interval_ms=10")).await;
    assert_eq!(upstream.last_request().common_name(), Some("ada"));

    put("bob");
    upstream.revoke_client("ada");
    upstream.accept_client("bob");
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
    assert_eq!(upstream.last_request().common_name(), Some("bob"));
    for _ in 0..3 {
        assert!(within(http_body_util::BodyExt::frame(going_on.body_mut())).await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn headers_of_a_command_are_kept_until_they_are_refused() {
    let watch = Watch::new();
    let (old, new) = (watch.secret("old token"), watch.secret("new token"));
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    upstream.accept_token(old.expose());
    let line = |token: &credlet_api::Secret| format!("Authorization: Bearer {}\nX-Team: blue\n", token.expose());
    let plugin = Plugin::new().prints(line(&old)).on_the_next_run().prints(line(&new));
    let command = plugin.command().to_str().unwrap().to_owned();
    let signer = Headers::command(command, Vec::new(), Duration::from_secs(3600), World::system());
    let proxy = Proxy::start(signer, &upstream, &ca).await;
    for _ in 0..3 {
        assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
    }
    assert_eq!(plugin.runs(), 1);
    assert_eq!(upstream.last_request().header("x-team"), Some("blue"));
    upstream.revoke_token(old.expose());
    upstream.accept_token(new.expose());
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn an_api_server_that_comes_back_is_served_again_without_a_new_proxy() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let address = upstream.address();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
    upstream.stop().await;
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::BAD_GATEWAY);
    let _again = Upstream::setup(&ca).at(address).start();
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
}

/// A card that wants its PIN.
#[derive(Clone, Debug, Default)]
struct Card(Arc<std::sync::Mutex<Option<credlet_api::Secret>>>);

impl Signer for Card {
    fn credential(&self) -> Signing<'_, credlet_client::conn::Credential> {
        Box::pin(async {
            match *self.0.lock().unwrap() {
                Some(_) => Ok(credlet_client::conn::Credential::new(1, None, None)),
                None => Err(SignError::Person { message: "tell me the PIN".into() }),
            }
        })
    }

    fn wants(&self) -> Option<String> {
        self.0.lock().unwrap().is_none().then(|| "PIN of the token \"bleuté\"\n:".into())
    }

    fn unlock(&self, answer: credlet_api::Secret) -> Signing<'_, ()> {
        *self.0.lock().unwrap() = Some(answer);
        Box::pin(async { Ok(()) })
    }

    /// The PIN is forgotten.
    fn close(&self) {
        *self.0.lock().unwrap() = None;
    }
}

#[tokio::test]
async fn what_a_signer_wants_from_a_person_reaches_it_by_the_other_socket_and_nobody_else() {
    let watch = Watch::new();
    let pin = watch.secret("PIN");
    let (ca, home) = (Ca::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start(Card::default(), &upstream, &ca).await;
    let response = proxy.send(proxy.get("/version")).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    assert!(text(response).await.contains("tell me the PIN"));
    let (_lock, path) = crate::support::locked(home.path(), "lock");
    let wants = proxy.control().lease(Some(&path)).await.unwrap().wants;
    assert_eq!(wants.as_deref(), Some("PIN of the token \"bleuté\" :"));
    proxy.control().unlock(&pin).await.unwrap();
    assert_eq!(proxy.control().lease(Some(&path)).await.unwrap().wants, None);
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_signer_is_let_go_of_when_its_proxy_ends() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let card = Card::default();
    let proxy = Proxy::start(card.clone(), &upstream, &ca).await;
    proxy.control().unlock(&credlet_api::Secret::new("1234".to_owned())).await.unwrap();
    assert_eq!(card.wants(), None);
    proxy.control().stop().await.unwrap();
    within(proxy.running).await.unwrap();
    assert!(card.wants().is_some(), "it was closed");
}
