//! End-to-end tests with plugin processes, TLS and a small API server.
//!
//! They are built with kube's default features, which enable another crypto provider (ring).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod building;
mod configs;
mod examples;
#[cfg(feature = "proxy")]
mod exec_proxy;
mod informers;
mod layers;
mod proxies;
mod store;
mod upgrades;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use credlet_client::AuthenticatorRegistry;
use credlet_exec::{
    Clock as _, FixedEnv, ManualClock, NoopObserver, Platform, StderrSink, SystemClock, SystemEnv, SystemRunner,
};
use credlet_kube::KubeClientOptions;
use credlet_kubeconfig::{ConfigOverrides, Kubeconfig, ResolvedConfig};
use credlet_testkit::ca::{TestCa, TestIdentity};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::{ClientCertificates, FakeApiServer};

use store::ConfigMapStore;

/// Timeout that turns a hang into a failed test.
const HANG: Duration = Duration::from_secs(60);

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, work).await.unwrap()
}

/// Cluster with ConfigMaps, and clients with a manual clock.
struct TestCluster {
    ca: TestCa,
    store: ConfigMapStore,
    server: FakeApiServer,
    clock: ManualClock,
    authenticators: Arc<AuthenticatorRegistry>,
}

impl TestCluster {
    fn start() -> Self {
        Self::with(ClientCertificates::Optional)
    }

    fn with(certificates: ClientCertificates) -> Self {
        let (ca, store) = (TestCa::new(), ConfigMapStore::default());
        let answers = store.clone();
        let server = FakeApiServer::setup(&ca).client_certificates(certificates);
        let server = server.answering(move |request| answers.answer(request)).start();
        let clock = ManualClock::new(SystemClock::new().now());
        let platform = Platform {
            clock: Arc::new(clock.clone()),
            env: Arc::new(SystemEnv),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
            observer: Arc::new(NoopObserver),
        };
        Self { ca, store, server, clock, authenticators: Arc::new(AuthenticatorRegistry::new(platform)) }
    }

    /// Returns a client certificate of this user and registers its key as a secret.
    fn identity(&self, user: &str, watch: &LeakCheck) -> TestIdentity {
        let identity = self.ca.client(user).issue();
        watch.adopt("key", identity.key_pem());
        identity
    }

    /// A kubeconfig with this user, as YAML in flow style.
    fn resolve(&self, user: &str) -> ResolvedConfig {
        let text = self.kubeconfig(user);
        let env = FixedEnv::default();
        Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap().resolve(&ConfigOverrides::default(), &env).unwrap()
    }

    fn kubeconfig(&self, user: &str) -> String {
        let authority = base64::engine::general_purpose::STANDARD.encode(self.ca.pem());
        format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{}', certificate-authority-data: {authority}}}}}]\n\
             users: [{{name: u, user: {user}}}]\n",
            self.server.url(),
        )
    }

    fn options(&self, options: impl Into<KubeClientOptions>) -> KubeClientOptions {
        options.into().with_authenticators(Arc::clone(&self.authenticators))
    }

    fn client(&self, plugin: &TestPlugin) -> kube::Client {
        credlet_kube::client(self.options(self.resolve(&exec_user(plugin, "Never")))).unwrap()
    }

    /// The paths of all requests so far that contain `part`.
    fn paths(&self, part: &str) -> Vec<String> {
        self.server.requests().into_iter().map(|seen| seen.path).filter(|path| path.contains(part)).collect()
    }
}

fn exec_user(plugin: &TestPlugin, mode: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: {mode}, command: '{}'}}}}",
        plugin.command().display()
    )
}
