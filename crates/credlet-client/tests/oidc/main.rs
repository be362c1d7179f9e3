//! The `auth-provider` `oidc` with a fake issuer and an API server, all over TLS.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod errors;
mod refreshing;
mod saving;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use credlet_api::Secret;
use credlet_client::kubeconfig::{ConfigOverrides, LoadingRules, ResolvedConfig};
use credlet_client::{AuthenticatorRegistry, Client, ClientOptions};
use credlet_exec::{Clock, FixedEnv, NoopObserver, Platform, StderrSink, SystemClock, SystemRunner};
use credlet_http::{CryptoBackend, RequestBody};
use credlet_testkit::ca::TestCa;
use credlet_testkit::issuer::{FakeIssuer, IssuerRequest};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::server::FakeApiServer;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;

/// Timeout that turns a hang into a failed test.
const HANG: Duration = Duration::from_secs(60);

/// Kubeconfig with an OIDC login, its issuer and an API server.
struct Sandbox {
    watch: LeakCheck,
    issuer: FakeIssuer,
    server: FakeApiServer,
    ca: TestCa,
    clock: Arc<dyn Clock>,
    dir: tempfile::TempDir,
    secret: Secret,
}

impl Sandbox {
    fn new() -> Self {
        Self::at(Arc::new(SystemClock::new()))
    }

    fn at(clock: Arc<dyn Clock>) -> Self {
        let watch = LeakCheck::new();
        let secret = watch.secret("client secret");
        let ca = TestCa::new();
        let issuer = FakeIssuer::start_with_client(&ca, "credlet", secret.expose());
        let server = FakeApiServer::setup(&ca).start();
        Self { watch, issuer, server, ca, clock, dir: tempfile::tempdir().unwrap(), secret }
    }

    /// An ID token that expires in this many seconds.
    fn id_token(&self, label: &str, seconds: i64) -> String {
        let exp = self.clock.now().as_second() + seconds;
        let claims = URL_SAFE_NO_PAD.encode(format!(r#"{{"sub":"ada","exp":{exp}}}"#));
        // The signature is registered as the secret part of the token.
        let signature = self.watch.secret(label);
        format!("eyJhbGciOiJub25lIn0.{claims}.{}", signature.expose())
    }

    fn refresh_token(&self, label: &str) -> String {
        self.watch.secret(label).expose().to_owned()
    }

    /// The lines of `auth-provider.config`, but for the tokens.
    fn settings(&self) -> String {
        format!(
            "        idp-issuer-url: {}/\n        client-id: credlet\n        client-secret: '{}'\n        \
             idp-certificate-authority-data: {}\n        extra-scopes: groups\n",
            self.issuer.url(),
            self.secret.expose(),
            STANDARD.encode(self.ca.pem()),
        )
    }

    /// A kubeconfig with these lines in `auth-provider.config`.
    fn kubeconfig(&self, config: &str) -> PathBuf {
        let text = format!(
            "# Ada's own\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{}', certificate-authority-data: {}}}}}]\nusers:\n- name: u # me\n  \
             user:\n    auth-provider:\n      name: oidc\n      config:\n{config}\n# The end\n",
            self.server.url(),
            STANDARD.encode(self.ca.pem()),
        );
        let path = self.dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A kubeconfig with these tokens.
    fn logged_in(&self, id: &str, refresh: &str) -> PathBuf {
        self.kubeconfig(&format!(
            "{}        id-token: {id}   # from the login\n        refresh-token: \"{refresh}\"",
            self.settings()
        ))
    }

    fn options(&self) -> ClientOptions {
        let mut options = ClientOptions::new(CryptoBackend::aws_lc_rs());
        options.authenticators = Arc::new(AuthenticatorRegistry::new(Platform {
            clock: Arc::clone(&self.clock),
            env: Arc::new(FixedEnv::default()),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
            observer: Arc::new(NoopObserver),
        }));
        options
    }

    /// A client with a separate registry, like another process.
    fn client(&self, path: &Path) -> Client {
        Client::new(&resolve(path), self.options()).unwrap()
    }

    /// Sends a request that must fail without a token, and returns its error.
    async fn credential_error(&self, client: &Client) -> String {
        let request = Request::get("/version").body(RequestBody::empty()).unwrap();
        let error = tokio::time::timeout(HANG, client.send(request)).await.unwrap().unwrap_err();
        self.watch.error(&error);
        let error = match error {
            credlet_client::Error::Credential(error) => error,
            other => unreachable!("{other}"),
        };
        assert_eq!(self.server.counts().requests, 0, "nothing is sent without a token");
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&*error);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }

    /// Waits until the requests at the issuer satisfy the condition.
    async fn wait_for_requests(&self, holds: impl FnMut(&[IssuerRequest]) -> bool) {
        tokio::time::timeout(HANG, self.issuer.until(holds)).await.unwrap();
    }

    /// The warnings about the kubeconfig of this sandbox.
    fn warnings(&self) -> Vec<String> {
        let file = self.dir.path().display().to_string();
        self.watch.lines().into_iter().filter(|line| line.contains("WARN") && line.contains(&file)).collect()
    }
}

fn resolve(path: &Path) -> ResolvedConfig {
    let env = FixedEnv::default();
    let kubeconfig = LoadingRules::list(vec![path.to_owned()]).load(&env).unwrap();
    kubeconfig.resolve(&ConfigOverrides::default(), &env).unwrap()
}

async fn status(client: &Client) -> StatusCode {
    let request = Request::get("/version").body(RequestBody::empty()).unwrap();
    let response = tokio::time::timeout(HANG, client.send(request)).await.unwrap().unwrap();
    let status = response.status();
    response.into_body().collect().await.unwrap();
    status
}
