//! The old form of login: a user with `auth-provider: {name: oidc}`, an issuer and an API server, all over TLS.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod failing;
mod issuer;
mod saving;
mod using;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use credlet_api::Secret;
use credlet_client::conn::{Crypto, Payload};
use credlet_client::kubeconfig::{LoadingRules, Overrides, Resolved};
use credlet_client::{AuthError, Authenticators, Client, ClientOptions};
use credlet_core::{Clock, FixedEnv, NoObserver, StderrSink, SystemClock, SystemRunner, World};
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::server::Server;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;

use crate::issuer::Issuer;

/// Longer than anything here takes, so that a hang fails a test instead of stopping it.
const HANG: Duration = Duration::from_secs(60);

/// A person, her kubeconfig, the issuer she has logged in at, and the API server she wants to talk to.
struct Scene {
    watch: Watch,
    issuer: Issuer,
    server: Server,
    ca: Ca,
    clock: Arc<dyn Clock>,
    dir: tempfile::TempDir,
    secret: Secret,
}

impl Scene {
    fn new() -> Self {
        Self::at(Arc::new(SystemClock::new()))
    }

    fn at(clock: Arc<dyn Clock>) -> Self {
        let watch = Watch::new();
        let secret = watch.secret("client secret");
        let ca = Ca::new();
        let issuer = Issuer::start(&ca, secret.expose());
        let server = Server::setup(&ca).start();
        Self { watch, issuer, server, ca, clock, dir: tempfile::tempdir().unwrap(), secret }
    }

    /// An ID token that ends so many seconds from now.
    fn id_token(&self, label: &str, seconds: i64) -> String {
        let exp = self.clock.now().as_second() + seconds;
        let claims = URL_SAFE_NO_PAD.encode(format!(r#"{{"sub":"ada","exp":{exp}}}"#));
        // The signature alone makes a token one: whoever sees it could use it.
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
        let mut options = ClientOptions::new(Crypto::aws_lc_rs());
        options.authenticators = Arc::new(Authenticators::new(World {
            clock: Arc::clone(&self.clock),
            env: Arc::new(FixedEnv::default()),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
            observer: Arc::new(NoObserver),
        }));
        options
    }

    /// As a process of its own would have it.
    fn client(&self, path: &Path) -> Client {
        Client::new(&resolve(path), self.options()).unwrap()
    }

    /// What a request ends in that finds no token.
    async fn refused(&self, client: &Client) -> String {
        let request = Request::get("/version").body(Payload::empty()).unwrap();
        let error = tokio::time::timeout(HANG, client.send(request)).await.unwrap().unwrap_err();
        self.watch.error(&*error);
        let error = error.downcast_ref::<Arc<AuthError>>().unwrap();
        assert_eq!(self.server.counts().requests, 0, "nothing is sent without a token");
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&**error);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }

    /// The warnings about this scene's file.
    fn warnings(&self) -> Vec<String> {
        let file = self.dir.path().display().to_string();
        self.watch.lines().into_iter().filter(|line| line.contains("WARN") && line.contains(&file)).collect()
    }
}

fn resolve(path: &Path) -> Resolved {
    let env = FixedEnv::default();
    let kubeconfig = LoadingRules::list(vec![path.to_owned()]).load(&env).unwrap();
    kubeconfig.resolve(&Overrides::default(), &env).unwrap()
}

async fn status(client: &Client) -> StatusCode {
    let request = Request::get("/version").body(Payload::empty()).unwrap();
    let response = tokio::time::timeout(HANG, client.send(request)).await.unwrap().unwrap();
    let status = response.status();
    response.into_body().collect().await.unwrap();
    status
}
