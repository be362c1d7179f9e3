//! End-to-end tests with a kubeconfig, plugin processes, TLS and a recording server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod certificates;
mod identity;
mod load;
mod sharing;
mod unauthorized;

use std::sync::Arc;
use std::time::Duration;

use credlet_client::kubeconfig::{ConfigOverrides, Kubeconfig, ResolvedConfig};
use credlet_client::{AuthenticatorRegistry, Client, ClientOptions};
use credlet_exec::{FixedEnv, NoopObserver, Platform, StderrSink, SystemClock, SystemEnv, SystemRunner};
use credlet_http::{CryptoBackend, RequestBody, ResponseBody};
use credlet_testkit::ca::TestCa;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::FakeApiServer;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;

/// Timeout that turns a hang into a failed test.
const HANG: Duration = Duration::from_secs(60);

fn platform() -> Platform {
    Platform {
        clock: Arc::new(SystemClock::new()),
        env: Arc::new(SystemEnv),
        runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
        observer: Arc::new(NoopObserver),
    }
}

fn options() -> ClientOptions {
    let mut options = ClientOptions::new(CryptoBackend::aws_lc_rs());
    options.authenticators = Arc::new(AuthenticatorRegistry::new(platform()));
    options
}

/// A kubeconfig for `server` with this user, as YAML in flow style.
fn resolve(server: &str, ca: &TestCa, user: &str) -> ResolvedConfig {
    resolve_with(server, ca.pem(), user)
}

fn resolve_with(server: &str, ca_pem: &str, user: &str) -> ResolvedConfig {
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: {}}}}}]\n\
         users: [{{name: u, user: {user}}}]\n",
        base64(ca_pem),
    );
    let env = FixedEnv::default();
    Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap().resolve(&ConfigOverrides::default(), &env).unwrap()
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn exec_user(plugin: &TestPlugin) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: '{}'}}}}",
        plugin.command().display()
    )
}

fn client(server: &FakeApiServer, ca: &TestCa, plugin: &TestPlugin) -> Client {
    Client::new(&resolve(&server.url(), ca, &exec_user(plugin)), options()).unwrap()
}

async fn get(client: &Client, path: &str) -> Response<ResponseBody> {
    let request = Request::get(path).body(RequestBody::empty()).unwrap();
    tokio::time::timeout(HANG, client.send(request)).await.unwrap().unwrap()
}

async fn status(client: &Client, path: &str) -> StatusCode {
    let response = get(client, path).await;
    let status = response.status();
    response.into_body().collect().await.unwrap();
    status
}
