//! TLS to a proxy that returns a certificate authority.

use credlet_exec::ManualClock;
use credlet_testkit::plugin::{TestPlugin, wait_for_end};
use credlet_testkit::server::ClientCertificates;

use super::*;

#[tokio::test]
async fn mutual_tls_on_the_local_hop() {
    let sandbox = ClientSandbox::new();
    let token = sandbox.watch.secret("token");
    let local = TestCa::named("local");
    let (proxy, client) = (local.server().issue(), local.client("local client").issue());
    sandbox.watch.adopt("the client's key", client.key_pem());
    let tunnel = sandbox.tunnel().with_tls(&proxy, &local);
    let plugin = TestPlugin::new()
        .listens(&tunnel)
        .answers_with_proxy(tunnel.url())
        .proxy_authority(local.pem())
        .certificate(client.cert_pem(), client.key_pem())
        .token(token.expose())
        .hangs();
    assert_eq!(get(&sandbox.client(&plugin)).await, StatusCode::OK);
    let seen = sandbox.server.last_request();
    assert_eq!((seen.common_name(), seen.bearer()), (Some("proxied"), Some(token.expose())));
}

#[tokio::test]
async fn wrong_server_certificate_reruns_plugin_once() {
    let sandbox = ClientSandbox::new();
    let (local, other) = (TestCa::named("local"), TestCa::named("other"));
    let tunnel = sandbox.tunnel().with_tls(&local.server().issue(), &local);
    let client = local.client("client").issue();
    let plugin = TestPlugin::new()
        .leaves_a_proxy(&tunnel)
        .answers_with_proxy(tunnel.url())
        .proxy_authority(other.pem())
        .certificate(client.cert_pem(), client.key_pem());
    let client = sandbox.client(&plugin);
    for _ in 0..3 {
        let error = sandbox.error(&client).await;
        assert!(error.starts_with(&format!("invalid certificate of {}", tunnel.url())), "{error}");
    }
    assert_eq!((plugin.runs(), sandbox.server.counts().requests), (2, 0));
}

#[tokio::test]
async fn new_ca_is_trusted_after_rerun() {
    let sandbox = ClientSandbox::new();
    let (old, new) = (TestCa::named("old"), TestCa::named("new"));
    let tunnel = sandbox.tunnel().with_tls(&new.server().issue(), &new);
    let client = new.client("client").issue();
    let plugin = TestPlugin::new()
        .leaves_a_proxy(&tunnel)
        .answers_with_proxy(tunnel.url())
        .proxy_authority(old.pem())
        .certificate(client.cert_pem(), client.key_pem())
        .on_the_next_run()
        .answers_with_proxy(tunnel.url())
        .proxy_authority(new.pem())
        .certificate(client.cert_pem(), client.key_pem());
    assert_eq!(status(&sandbox.client(&plugin), Method::POST, "/echo").await, StatusCode::OK);
    assert_eq!((plugin.runs(), sandbox.seen("POST")), (2, 1));
}

/// Each start of a proxy may have a new CA, and another client may have started it.
#[tokio::test]
async fn client_follows_ca_rotation() {
    let clock = ManualClock::new(SystemClock::new().now());
    let sandbox = ClientSandbox::at(Arc::new(clock.clone()));
    let authorities = ["first", "second", "third", "fourth"].map(TestCa::named);
    let answering = |plugin: TestPlugin, ca: &TestCa| {
        let client = ca.client("client").issue();
        plugin
            .answers_with_proxy(sandbox.tunnel().url())
            .proxy_authority(ca.pem())
            .certificate(client.cert_pem(), client.key_pem())
    };
    let (first, rest) = authorities.split_first().unwrap();
    let follows = answering(TestPlugin::new(), first);
    let follows = rest.iter().fold(follows, |plugin, ca| answering(plugin.on_the_next_run(), ca));
    let follower = sandbox.client(&follows);
    for (run, ca) in (1..).zip(&authorities) {
        let tunnel = sandbox.tunnel().with_tls(&ca.server().issue(), ca);
        let leads = answering(TestPlugin::new().listens(&tunnel), ca).hangs();
        let leader = sandbox.client(&leads);
        assert_eq!(get(&leader).await, StatusCode::OK);
        assert_eq!(status(&follower, Method::POST, "/echo").await, StatusCode::OK);
        assert_eq!((follows.runs(), sandbox.seen("POST")), (run, run));
        drop(leader);
        let pid = leads.pids()[0];
        tokio::task::spawn_blocking(move || wait_for_end(pid)).await.unwrap();
        clock.advance(Duration::from_secs(60));
    }
}

/// With TLS 1.3 a client learns of the rejection after it has sent its request.
#[tokio::test]
async fn rejected_client_certificate_is_renewed() {
    let sandbox = ClientSandbox::new();
    let (local, old) = (TestCa::named("local"), TestCa::named("old"));
    let tunnel = sandbox.tunnel().with_tls(&local.server().issue(), &local);
    let certificates = [&old, &local].map(|ca| ca.client("client").issue());
    let plugin = TestPlugin::new()
        .leaves_a_proxy(&tunnel)
        .answers_with_proxy(tunnel.url())
        .proxy_authority(local.pem())
        .certificate(certificates[0].cert_pem(), certificates[0].key_pem())
        .on_the_next_run()
        .answers_with_proxy(tunnel.url())
        .proxy_authority(local.pem())
        .certificate(certificates[1].cert_pem(), certificates[1].key_pem());
    let client = sandbox.client(&plugin);
    // A request is retried if it is rejected before anything was sent.
    let first = send(&client, Method::POST, "/echo").await;
    first.as_ref().inspect_err(|error| sandbox.watch.error(*error)).ok();
    assert_eq!(status(&client, Method::POST, "/echo").await, StatusCode::OK);
    assert_eq!((plugin.runs(), sandbox.seen("POST")), (2, 1 + usize::from(first.is_ok())));
}

#[tokio::test]
async fn invalid_ca_is_rejected() {
    let sandbox = ClientSandbox::new();
    let plugin = sandbox.starter().proxy_authority("rubbish");
    let error = sandbox.error(&sandbox.client(&plugin)).await;
    assert_eq!(error, "cannot use the plugin's exec proxy: invalid certificate authorities: missing PEM certificate");
}

#[tokio::test]
async fn loopback_port_needs_mutual_tls() {
    let sandbox = ClientSandbox::new();
    let ca = TestCa::named("local");
    let proxy = FakeApiServer::setup(&ca).client_certificates(ClientCertificates::Required).start_in_thread();
    let client = ca.client("local client").issue();
    let plugin = TestPlugin::new()
        .answers_with_proxy(proxy.url())
        .proxy_authority(ca.pem())
        .certificate(client.cert_pem(), client.key_pem());
    let server = "https://api.invalid:6443";
    let client = Client::new(&sandbox.resolve(server, &plugin), sandbox.options()).unwrap();
    assert_eq!(get(&client).await, StatusCode::OK);
    let seen = proxy.last_request();
    assert_eq!(seen.common_name(), Some("local client"));
    assert_eq!(seen.alpn.as_deref(), Some("h2"));
}
