//! kube over our connections: real plugins, real TLS, and a small API server that says what it saw.
//!
//! All of this is built with kube's default features, which bring another crypto provider than ours.
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
use credlet_client::Authenticators;
use credlet_client::kubeconfig::{Kubeconfig, Overrides, Resolved};
use credlet_core::{
    Clock as _, FixedEnv, ManualClock, NoObserver, StderrSink, SystemClock, SystemEnv, SystemRunner, World,
};
use credlet_kube::Options;
use credlet_testkit::ca::{Ca, Identity};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::server::{ClientCertificates, Server};

use store::Store;

/// Longer than anything here takes, so that a hang fails a test instead of stopping it.
const HANG: Duration = Duration::from_secs(60);

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, work).await.unwrap()
}

/// A cluster with ConfigMaps, and clients whose time stands still until a test lets it pass.
struct Cluster {
    ca: Ca,
    store: Store,
    server: Server,
    clock: ManualClock,
    authenticators: Arc<Authenticators>,
}

impl Cluster {
    fn start() -> Self {
        Self::with(ClientCertificates::Optional)
    }

    fn with(certificates: ClientCertificates) -> Self {
        let (ca, store) = (Ca::new(), Store::default());
        let answers = store.clone();
        let server = Server::setup(&ca).client_certificates(certificates);
        let server = server.answering(move |request| answers.answer(request)).start();
        let clock = ManualClock::new(SystemClock::new().now());
        let world = World {
            clock: Arc::new(clock.clone()),
            env: Arc::new(SystemEnv),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
            observer: Arc::new(NoObserver),
        };
        Self { ca, store, server, clock, authenticators: Arc::new(Authenticators::new(world)) }
    }

    /// A certificate of this user, whose key must not be seen.
    fn identity(&self, user: &str, watch: &Watch) -> Identity {
        let identity = self.ca.client(user).issue();
        watch.adopt("key", identity.key_pem());
        identity
    }

    /// A kubeconfig with this user, as YAML in flow style.
    fn resolve(&self, user: &str) -> Resolved {
        let text = self.kubeconfig(user);
        let env = FixedEnv::default();
        Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap().resolve(&Overrides::default(), &env).unwrap()
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

    fn options(&self, options: impl Into<Options>) -> Options {
        options.into().sharing(Arc::clone(&self.authenticators))
    }

    fn client(&self, plugin: &Plugin) -> kube::Client {
        credlet_kube::client(self.options(self.resolve(&exec_user(plugin, "Never")))).unwrap()
    }

    /// The paths of all requests so far, and of those of a kind.
    fn paths(&self, part: &str) -> Vec<String> {
        self.server.requests().into_iter().map(|seen| seen.path).filter(|path| path.contains(part)).collect()
    }
}

fn exec_user(plugin: &Plugin, mode: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: {mode}, command: '{}'}}}}",
        plugin.command().display()
    )
}
