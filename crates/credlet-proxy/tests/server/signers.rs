//! Signers of the proxy, and 401 responses.

use std::sync::Arc;
use std::time::Duration;

use credlet_client::{AuthenticatorRegistry, ClientOptions};
use credlet_exec::{Platform, PluginPolicy, SystemClock, SystemEnv};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{ConfigOverrides, Kubeconfig};
use credlet_proxy::sign::{ExecSigner, FileSigner, HeaderSigner, SignError, SignFuture, Signer};
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::{ClientCertificates, FakeApiServer as Upstream, Fault};
use http::{Request, StatusCode};

use crate::support::{FakeSigner, TestProxy, text, whole, within};

fn exec(plugin: &TestPlugin) -> ExecSigner {
    let text = format!(
        "current-context: blue
contexts: [{{name: blue, context: {{cluster: blue, user: ada}}}}]
clusters: [{{name: blue, cluster: {{server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}}}]
users: [{{name: ada, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: {}}}}}}}]",
        plugin.command().display()
    );
    let kubeconfig = Kubeconfig::from_bytes(text.as_bytes(), &SystemEnv).unwrap();
    let resolved = kubeconfig.resolve(&ConfigOverrides::default(), &SystemEnv).unwrap();
    let mut options = ClientOptions::new(CryptoBackend::aws_lc_rs());
    options.authenticators = Arc::new(AuthenticatorRegistry::new(Platform::system()));
    ExecSigner::new(options.authenticator(&resolved).unwrap().unwrap(), Arc::new(SystemClock::new()), None)
}

#[tokio::test]
async fn exec_signer_runs_once_and_after_401() {
    let watch = LeakCheck::new();
    let (old, new) = (watch.secret("old token"), watch.secret("new token"));
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    upstream.accept_token(old.expose());
    let plugin = TestPlugin::answering(old.expose()).on_the_next_run().answers(new.expose());
    let proxy = TestProxy::start(exec(&plugin), &upstream, &ca).await;
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
async fn unauthorized_is_retried_once() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    upstream.revoke_all();
    let plugin = TestPlugin::answering(token.expose());
    let proxy = TestProxy::start(exec(&plugin), &upstream, &ca).await;
    for _ in 0..10 {
        let response = proxy.send(proxy.get("/version")).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert!(response.headers().get("exec-proxy-error").is_none());
    }
    assert!(plugin.runs() <= 3, "{} runs", plugin.runs());
    assert!(upstream.counts().requests <= 20);
}

/// A signer that always offers another credential.
#[derive(Debug, Default)]
struct RetryingSigner(FakeSigner);

impl Signer for RetryingSigner {
    fn credential(&self) -> SignFuture<'_, credlet_http::HttpCredential> {
        self.0.credential()
    }

    fn on_unauthorized(&self, _: u64) -> SignFuture<'_, bool> {
        Box::pin(async { Ok(true) })
    }
}

#[tokio::test]
async fn retry_needs_a_replayable_body() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start(RetryingSigner(FakeSigner::nothing()), &upstream, &ca).await;
    upstream.inject(10, Fault::Status(401));
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(upstream.counts().requests, 2);
    let post = Request::post("/echo").header("host", &proxy.authority).body(whole("once")).unwrap();
    assert_eq!(proxy.send(post).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(upstream.counts().requests, 3);
}

#[tokio::test]
async fn failed_plugin_is_not_a_401() {
    let watch = LeakCheck::new();
    let secret = watch.secret("token");
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let plugin = TestPlugin::new().prints(secret.expose()).exits(3);
    let proxy = TestProxy::start(exec(&plugin), &upstream, &ca).await;
    let response = proxy.send(proxy.get("/version")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["exec-proxy-error"], "signer");
    watch.text(text(response).await);
    assert_eq!(upstream.counts().requests, 0);
}

#[tokio::test]
async fn file_certificate_is_replaced_during_watch() {
    let watch = LeakCheck::new();
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
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
    let signer =
        FileSigner::new(certificate.clone(), key.clone(), CryptoBackend::aws_lc_rs(), Arc::new(SystemClock::new()));
    let proxy = TestProxy::start(signer, &upstream, &ca).await;
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
async fn command_headers_are_cached_until_401() {
    let watch = LeakCheck::new();
    let (old, new) = (watch.secret("old token"), watch.secret("new token"));
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    upstream.accept_token(old.expose());
    let line = |token: &credlet_api::Secret| format!("Authorization: Bearer {}\nX-Team: blue\n", token.expose());
    let plugin = TestPlugin::new().prints(line(&old)).on_the_next_run().prints(line(&new));
    let command = plugin.command().to_str().unwrap().to_owned();
    let keep = Duration::from_secs(3600);
    let signer = HeaderSigner::command(command, Vec::new(), keep, PluginPolicy::ALLOW_ALL, Platform::system());
    let proxy = TestProxy::start(signer, &upstream, &ca).await;
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
async fn recovers_when_api_server_returns() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let address = upstream.address();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
    upstream.stop().await;
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::BAD_GATEWAY);
    let _again = Upstream::setup(&ca).at(address).start();
    assert_eq!(proxy.send(proxy.get("/version")).await.status(), StatusCode::OK);
}

/// A card that needs a PIN.
#[derive(Clone, Debug, Default)]
struct Card(Arc<std::sync::Mutex<Option<credlet_api::Secret>>>);

impl Signer for Card {
    fn credential(&self) -> SignFuture<'_, credlet_http::HttpCredential> {
        Box::pin(async {
            match *self.0.lock().unwrap() {
                Some(_) => Ok(credlet_http::HttpCredential::new(1, None, None)),
                None => Err(SignError::UserActionRequired { message: "tell me the PIN".into() }),
            }
        })
    }

    fn unlock_prompt(&self) -> Option<String> {
        self.0.lock().unwrap().is_none().then(|| "PIN of the token \"bleuté\"\n:".into())
    }

    fn unlock(&self, answer: credlet_api::Secret) -> SignFuture<'_, ()> {
        *self.0.lock().unwrap() = Some(answer);
        Box::pin(async { Ok(()) })
    }

    /// Drops the PIN.
    fn close(&self) {
        *self.0.lock().unwrap() = None;
    }
}

#[tokio::test]
async fn pin_reaches_signer_by_control_socket() {
    let watch = LeakCheck::new();
    let pin = watch.secret("PIN");
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start(Card::default(), &upstream, &ca).await;
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
async fn shutdown_closes_the_signer() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let card = Card::default();
    let proxy = TestProxy::start(card.clone(), &upstream, &ca).await;
    proxy.control().unlock(&credlet_api::Secret::new("1234".to_owned())).await.unwrap();
    assert_eq!(card.unlock_prompt(), None);
    proxy.control().stop().await.unwrap();
    within(proxy.running).await.unwrap();
    assert!(card.unlock_prompt().is_some(), "it was closed");
}
