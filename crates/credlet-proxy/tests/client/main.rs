//! The client half: a kubeconfig whose plugin answers with a proxy simply works.
//!
//! The proxies are real processes on real sockets. They hold a client certificate that the client never sees, and the
//! server lets nobody else in.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod safety;
mod storms;
mod styles;
mod switch;
mod tls;
mod together;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use credlet_client::conn::{Body, Crypto, Payload};
use credlet_client::http::BoxError;
use credlet_client::kubeconfig::{Kubeconfig, Overrides, Resolved};
use credlet_client::metrics::Metrics;
use credlet_client::{Authenticators, Client, ClientOptions};
use credlet_core::{Clock, FixedEnv, StderrSink, SystemClock, SystemEnv, SystemRunner, World};
use credlet_proxy::client::ExecProxies;
use credlet_testkit::ca::{Ca, Identity};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::{Plugin, Tunnel};
use credlet_testkit::server::Server;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Longer than anything here takes, so that a hang fails a test instead of stopping it.
const HANG: Duration = Duration::from_secs(60);

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, work).await.unwrap()
}

/// A cluster that lets in only the proxy, and a directory for sockets.
struct Stand {
    ca: Ca,
    server: Server,
    identity: Identity,
    dir: TempDir,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    watch: Watch,
}

impl Stand {
    fn new() -> Self {
        Self::at(Arc::new(SystemClock::new()))
    }

    fn at(clock: Arc<dyn Clock>) -> Self {
        let ca = Ca::new();
        let server = Server::setup(&ca).start_in_thread();
        server.accept_client("proxied");
        let watch = Watch::new();
        let identity = ca.client("proxied").issue();
        watch.adopt("the proxy's key", identity.key_pem());
        let dir = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap();
        let metrics = Arc::new(Metrics::new(Arc::clone(&clock)));
        Self { ca, server, identity, dir, clock, metrics, watch }
    }

    fn tunnel(&self) -> Tunnel {
        Tunnel::new(self.dir.path(), &self.server, &self.ca, &self.identity)
    }

    /// A plugin that starts a proxy and leaves.
    fn starter(&self) -> Plugin {
        let tunnel = self.tunnel();
        Plugin::new().leaves_a_proxy(&tunnel).answers_with_proxy(tunnel.url())
    }

    /// A plugin that is the proxy itself.
    fn server_plugin(&self) -> Plugin {
        let tunnel = self.tunnel();
        Plugin::new().listens(&tunnel).answers_with_proxy(tunnel.url()).hangs()
    }

    /// Another directory for sockets.
    fn other_dir(&self) -> PathBuf {
        let dir = self.dir.path().join("other");
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        dir
    }

    /// Where the lock files are.
    fn locks(&self) -> PathBuf {
        self.dir.path().join("credlet")
    }

    fn options(&self) -> ClientOptions {
        let world = World {
            clock: Arc::clone(&self.clock),
            env: Arc::new(SystemEnv),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
            observer: Arc::clone(&self.metrics) as _,
        };
        let mut options = ClientOptions::new(Crypto::aws_lc_rs());
        options.authenticators = Arc::new(Authenticators::new(world));
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", self.dir.path())]);
        options.exec_proxy = ExecProxies::from_env(&env).map(|proxies| proxies as _);
        options
    }

    fn client(&self, plugin: &Plugin) -> Client {
        Client::new(&self.resolve(&self.server.url(), plugin), self.options()).unwrap()
    }

    fn resolve(&self, server: &str, plugin: &Plugin) -> Resolved {
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: {}}}}}]\n\
             users: [{{name: u, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
             provideClusterInfo: true, command: '{}'}}}}}}]\n",
            base64::engine::general_purpose::STANDARD.encode(self.ca.pem()),
            plugin.command().display(),
        );
        let env = FixedEnv::default();
        Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap().resolve(&Overrides::default(), &env).unwrap()
    }

    /// How many requests of this kind have come to the server.
    fn seen(&self, method: &str) -> usize {
        self.server.requests().iter().filter(|seen| seen.method == method).count()
    }

    /// The error of a request, which holds no secret.
    async fn error(&self, client: &Client) -> String {
        let error = send(client, Method::GET, "/version").await.unwrap_err();
        self.watch.error(&*error);
        causes(&*error)
    }
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

async fn send(client: &Client, method: Method, path: &str) -> Result<Response<Body>, BoxError> {
    let request = Request::builder().method(method).uri(path).body(Payload::empty()).unwrap();
    within(client.send(request)).await
}

fn spawn(client: &Client, method: Method, path: &'static str) -> JoinHandle<Result<Response<Body>, BoxError>> {
    let client = client.clone();
    tokio::spawn(async move { send(&client, method, path).await })
}

/// Sends a request, and reads the answer to its end.
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
