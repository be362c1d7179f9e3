//! Client tests: kubeconfigs with a plugin that returns an exec proxy.
//!
//! The proxies are real processes on real sockets. They hold a client certificate that the client never sees, and the
//! server accepts no other.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client_and_server;
mod concurrency;
mod faults;
mod opt_out;
mod plugin_modes;
mod safety;
mod tls;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use credlet_client::metrics::CredentialMetrics;
use credlet_client::{AuthenticatorRegistry, Client, ClientOptions};
use credlet_exec::{Clock, FixedEnv, Platform, StderrSink, SystemClock, SystemEnv, SystemRunner};
use credlet_http::{CryptoBackend, RequestBody, ResponseBody};
use credlet_kubeconfig::{ConfigOverrides, Kubeconfig, ResolvedConfig};
use credlet_proxy::client::ExecProxies;
use credlet_testkit::ca::{TestCa, TestIdentity};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::{TestPlugin, TunnelProxy};
use credlet_testkit::server::FakeApiServer;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Longer than every operation here, so that a hang fails the test.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, work).await.unwrap()
}

/// A cluster that accepts only the proxy, and a directory for sockets.
struct ClientSandbox {
    ca: TestCa,
    server: FakeApiServer,
    identity: TestIdentity,
    dir: TempDir,
    clock: Arc<dyn Clock>,
    metrics: Arc<CredentialMetrics>,
    watch: LeakCheck,
}

impl ClientSandbox {
    fn new() -> Self {
        Self::at(Arc::new(SystemClock::new()))
    }

    fn at(clock: Arc<dyn Clock>) -> Self {
        let ca = TestCa::new();
        let server = FakeApiServer::setup(&ca).start_in_thread();
        server.accept_client("proxied");
        let watch = LeakCheck::new();
        let identity = ca.client("proxied").issue();
        watch.adopt("the proxy's key", identity.key_pem());
        let dir = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap();
        let metrics = Arc::new(CredentialMetrics::new(Arc::clone(&clock)));
        Self { ca, server, identity, dir, clock, metrics, watch }
    }

    fn tunnel(&self) -> TunnelProxy {
        TunnelProxy::new(self.dir.path(), &self.server, &self.ca, &self.identity)
    }

    /// A plugin that starts a proxy and exits.
    fn starter(&self) -> TestPlugin {
        let tunnel = self.tunnel();
        TestPlugin::new().leaves_a_proxy(&tunnel).answers_with_proxy(tunnel.url())
    }

    /// A plugin that is the proxy itself.
    fn server_plugin(&self) -> TestPlugin {
        let tunnel = self.tunnel();
        TestPlugin::new().listens(&tunnel).answers_with_proxy(tunnel.url()).hangs()
    }

    /// Another directory for sockets.
    fn other_dir(&self) -> PathBuf {
        let dir = self.dir.path().join("other");
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        dir
    }

    /// Directory of the lock files.
    fn locks(&self) -> PathBuf {
        self.dir.path().join("credlet")
    }

    fn options(&self) -> ClientOptions {
        let platform = Platform {
            clock: Arc::clone(&self.clock),
            env: Arc::new(SystemEnv),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
            observer: Arc::clone(&self.metrics) as _,
        };
        let mut options = ClientOptions::new(CryptoBackend::aws_lc_rs());
        options.authenticators = Arc::new(AuthenticatorRegistry::new(platform));
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", self.dir.path())]);
        options.exec_proxy = ExecProxies::from_env(&env).map(|proxies| proxies as _);
        options
    }

    fn client(&self, plugin: &TestPlugin) -> Client {
        Client::new(&self.resolve(&self.server.url(), plugin), self.options()).unwrap()
    }

    fn resolve(&self, server: &str, plugin: &TestPlugin) -> ResolvedConfig {
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: {}}}}}]\n\
             users: [{{name: u, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
             provideClusterInfo: true, command: '{}'}}}}}}]\n",
            base64::engine::general_purpose::STANDARD.encode(self.ca.pem()),
            plugin.command().display(),
        );
        let env = FixedEnv::default();
        Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap().resolve(&ConfigOverrides::default(), &env).unwrap()
    }

    /// Number of requests of this kind at the server.
    fn seen(&self, method: &str) -> usize {
        self.server.requests().iter().filter(|seen| seen.method == method).count()
    }

    /// Returns the error of a request, checked for secrets.
    async fn error(&self, client: &Client) -> String {
        let error = send(client, Method::GET, "/version").await.unwrap_err();
        self.watch.error(&error);
        causes(&error)
    }
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

async fn send(client: &Client, method: Method, path: &str) -> Result<Response<ResponseBody>, credlet_client::Error> {
    let request = Request::builder().method(method).uri(path).body(RequestBody::empty()).unwrap();
    within(client.send(request)).await
}

fn spawn(
    client: &Client,
    method: Method,
    path: &'static str,
) -> JoinHandle<Result<Response<ResponseBody>, credlet_client::Error>> {
    let client = client.clone();
    tokio::spawn(async move { send(&client, method, path).await })
}

/// Sends a request and reads the whole response.
async fn status(client: &Client, method: Method, path: &str) -> StatusCode {
    let response = send(client, method, path).await.unwrap();
    let status = response.status();
    within(response.into_body().collect()).await.unwrap();
    status
}

async fn get(client: &Client) -> StatusCode {
    status(client, Method::GET, "/version").await
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
