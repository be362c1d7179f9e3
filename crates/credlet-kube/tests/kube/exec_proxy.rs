//! A plugin that answers with a proxy: kube's requests go there, watches and upgrades too.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::pin::pin;

use credlet_proxy::client::ExecProxies;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::{TestPlugin, TunnelProxy};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{AttachParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

use crate::{FixedEnv, TestCluster, exec_user, within};

/// Cluster that accepts only the client certificate of the exec proxy, and a plugin that runs the proxy.
struct Proxied {
    cluster: TestCluster,
    plugin: TestPlugin,
    dir: TempDir,
    _watch: LeakCheck,
}

impl Proxied {
    fn start() -> Self {
        let watch = LeakCheck::new();
        let cluster = TestCluster::start();
        cluster.server.accept_client("proxied");
        let dir = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap();
        let identity = cluster.identity("proxied", &watch);
        let tunnel = TunnelProxy::new(dir.path(), &cluster.server, &cluster.ca, &identity);
        let plugin = TestPlugin::new().listens(&tunnel).answers_with_proxy(tunnel.url()).hangs();
        Self { cluster, plugin, dir, _watch: watch }
    }

    fn client(&self) -> kube::Client {
        let mut options = self.cluster.options(self.cluster.resolve(&exec_user(&self.plugin, "Never")));
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", self.dir.path())]);
        options.client.exec_proxy = ExecProxies::from_env(&env).map(|proxies| proxies as _);
        credlet_kube::client(options).unwrap()
    }
}

#[test]
fn exec_proxy_is_enabled_by_default() {
    assert!(credlet_kube::KubeClientOptions::infer().client.exec_proxy.is_some());
}

#[tokio::test]
async fn pod_exec_through_exec_proxy() {
    let proxied = Proxied::start();
    let pods = Api::<Pod>::default_namespaced(proxied.client());
    let wanted = AttachParams::default().stdout(true).stderr(false);
    let mut process = within(pods.exec("web", ["greet"], &wanted)).await.unwrap();
    let mut said = String::new();
    within(process.stdout().unwrap().read_to_string(&mut said)).await.unwrap();
    let status = within(process.take_status().unwrap()).await.unwrap();
    assert_eq!((said.as_str(), status.status.as_deref()), ("hello", Some("Success")));
    assert_eq!(proxied.cluster.server.last_request().common_name(), Some("proxied"));
    assert_eq!(proxied.plugin.runs(), 1);
}

#[tokio::test]
async fn watch_through_exec_proxy() {
    let proxied = Proxied::start();
    let maps = Api::<ConfigMap>::default_namespaced(proxied.client());
    let mut events = pin!(within(maps.watch(&WatchParams::default(), "0")).await.unwrap());
    for name in ["news", "more news"] {
        proxied.cluster.store.apply(name);
        let event = within(events.try_next()).await.unwrap().unwrap();
        assert!(matches!(&event, WatchEvent::Added(map) if map.name_any() == name), "{event:?}");
    }
    assert_eq!(proxied.plugin.runs(), 1);
}
