//! Sharing of authenticators between clients.

use std::sync::Arc;

use credlet_client::Client;
use credlet_client::kubeconfig::{ConfigOverrides, Kubeconfig};
use credlet_exec::FixedEnv;
use credlet_testkit::ca::TestCa;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::FakeApiServer;

use crate::{base64, exec_user, options, resolve, status};

#[tokio::test(flavor = "multi_thread")]
async fn ten_clients_share_one_run() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let plugin = TestPlugin::answering("token");
    let options = options();
    let resolved = resolve(&server.url(), &ca, &exec_user(&plugin));
    let clients: Vec<_> = (0..10).map(|_| Client::new(&resolved, options.clone()).unwrap()).collect();
    assert_eq!(options.authenticators.len(), 1);
    for client in &clients {
        status(client, "/version").await;
    }
    assert_eq!(plugin.runs(), 1);
    drop(clients);
    assert!(options.authenticators.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_share_user_without_cluster_info() {
    let ca = TestCa::new();
    let (blue, green) = (FakeApiServer::setup(&ca).start(), FakeApiServer::setup(&ca).start());
    for (told, authenticators) in [(false, 1), (true, 2)] {
        let plugin = TestPlugin::answering("token").reports();
        let cluster = |name: &str, server: &FakeApiServer| {
            format!(
                "- name: {name}\n  cluster: {{server: '{}', certificate-authority-data: {}, extensions: \
                 [{{name: client.authentication.k8s.io/exec, extension: {{audience: {name}}}}}]}}\n",
                server.url(),
                base64(ca.pem())
            )
        };
        let text = format!(
            "clusters:\n{}{}contexts: [{{name: blue, context: {{cluster: blue, user: u}}}}, \
             {{name: green, context: {{cluster: green, user: u}}}}]\nusers: [{{name: u, user: {{exec: {{apiVersion: \
             client.authentication.k8s.io/v1, interactiveMode: Never, command: '{}', provideClusterInfo: {told}}}}}}}]\n",
            cluster("blue", &blue),
            cluster("green", &green),
            plugin.command().display(),
        );
        let env = FixedEnv::default();
        let kubeconfig = Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap();
        let options = options();
        let client = |context: &str| {
            let mut overrides = ConfigOverrides::default();
            overrides.context = Some(context.to_owned());
            Client::new(&kubeconfig.resolve(&overrides, &env).unwrap(), options.clone()).unwrap()
        };
        let (to_blue, to_green) = (client("blue"), client("green"));
        assert_eq!(options.authenticators.len(), authenticators);
        status(&to_blue, "/version").await;
        status(&to_green, "/version").await;
        assert_eq!(plugin.runs(), authenticators);
        if told {
            // Building the second client has not changed the cluster info of the first.
            let info = |run| plugin.report_of(run).exec_info.unwrap();
            assert!(info(1).contains(r#""audience":"blue""#) && info(2).contains(r#""audience":"green""#));
        }
    }
}

#[test]
fn process_registry_is_a_singleton() {
    let process = credlet_client::AuthenticatorRegistry::of_this_process;
    assert!(Arc::ptr_eq(&process(), &process()));
}
