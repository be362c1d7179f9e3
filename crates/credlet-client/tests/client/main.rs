//! The whole way: a kubeconfig, a real plugin, real TLS, and a server that says what it saw.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod certificates;
mod identity;
mod load;
mod refusals;
mod sharing;

use std::sync::Arc;
use std::time::Duration;

use credlet_client::conn::{Body, Crypto, Payload};
use credlet_client::kubeconfig::{Kubeconfig, Overrides, Resolved};
use credlet_client::{Authenticators, Client, ClientOptions};
use credlet_core::{FixedEnv, NoObserver, StderrSink, SystemClock, SystemEnv, SystemRunner, World};
use credlet_testkit::ca::Ca;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::server::Server;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;

/// Longer than anything here takes, so that a hang fails a test instead of stopping it.
const HANG: Duration = Duration::from_secs(60);

fn world() -> World {
    World {
        clock: Arc::new(SystemClock::new()),
        env: Arc::new(SystemEnv),
        runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
        observer: Arc::new(NoObserver),
    }
}

fn options() -> ClientOptions {
    let mut options = ClientOptions::new(Crypto::aws_lc_rs());
    options.authenticators = Arc::new(Authenticators::new(world()));
    options
}

/// A kubeconfig for `server` with this user, as YAML in flow style.
fn resolve(server: &str, ca: &Ca, user: &str) -> Resolved {
    resolve_with(server, ca.pem(), user)
}

fn resolve_with(server: &str, ca_pem: &str, user: &str) -> Resolved {
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: {}}}}}]\n\
         users: [{{name: u, user: {user}}}]\n",
        base64(ca_pem),
    );
    let env = FixedEnv::default();
    Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap().resolve(&Overrides::default(), &env).unwrap()
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn exec_user(plugin: &Plugin) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: '{}'}}}}",
        plugin.command().display()
    )
}

fn client(server: &Server, ca: &Ca, plugin: &Plugin) -> Client {
    Client::new(&resolve(&server.url(), ca, &exec_user(plugin)), options()).unwrap()
}

async fn get(client: &Client, path: &str) -> Response<Body> {
    let request = Request::get(path).body(Payload::empty()).unwrap();
    tokio::time::timeout(HANG, client.send(request)).await.unwrap().unwrap()
}

async fn status(client: &Client, path: &str) -> StatusCode {
    let response = get(client, path).await;
    let status = response.status();
    response.into_body().collect().await.unwrap();
    status
}
