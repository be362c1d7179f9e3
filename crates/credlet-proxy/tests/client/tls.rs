//! TLS with the proxy, when it gives a certificate authority.

use credlet_core::ManualClock;
use credlet_testkit::plugin::{Plugin, wait_for_end};
use credlet_testkit::server::ClientCertificates;

use super::*;

#[tokio::test]
async fn both_sides_show_a_certificate_that_is_for_this_hop_alone_and_a_token_goes_to_the_proxy() {
    let stand = Stand::new();
    let token = stand.watch.secret("token");
    let local = Ca::named("local");
    let (proxy, client) = (local.server().issue(), local.client("local client").issue());
    stand.watch.adopt("the client's key", client.key_pem());
    let tunnel = stand.tunnel().with_tls(&proxy, &local);
    let plugin = Plugin::new()
        .listens(&tunnel)
        .answers_with_proxy(tunnel.url())
        .proxy_authority(local.pem())
        .certificate(client.cert_pem(), client.key_pem())
        .token(token.expose())
        .hangs();
    assert_eq!(get(&stand.client(&plugin)).await, StatusCode::OK);
    let seen = stand.server.last_request();
    assert_eq!((seen.common_name(), seen.bearer()), (Some("proxied"), Some(token.expose())));
}

#[tokio::test]
async fn a_proxy_with_the_wrong_certificate_makes_the_plugin_run_once_more_and_not_for_every_request() {
    let stand = Stand::new();
    let (local, other) = (Ca::named("local"), Ca::named("other"));
    let tunnel = stand.tunnel().with_tls(&local.server().issue(), &local);
    let client = local.client("client").issue();
    let plugin = Plugin::new()
        .leaves_a_proxy(&tunnel)
        .answers_with_proxy(tunnel.url())
        .proxy_authority(other.pem())
        .certificate(client.cert_pem(), client.key_pem());
    let client = stand.client(&plugin);
    for _ in 0..3 {
        let error = stand.error(&client).await;
        assert!(error.starts_with(&format!("the certificate of {} is not accepted", tunnel.url())), "{error}");
    }
    assert_eq!((plugin.runs(), stand.server.counts().requests), (2, 0));
}

#[tokio::test]
async fn a_proxy_with_a_new_certificate_authority_is_believed_after_another_run() {
    let stand = Stand::new();
    let (old, new) = (Ca::named("old"), Ca::named("new"));
    let tunnel = stand.tunnel().with_tls(&new.server().issue(), &new);
    let client = new.client("client").issue();
    let plugin = Plugin::new()
        .leaves_a_proxy(&tunnel)
        .answers_with_proxy(tunnel.url())
        .proxy_authority(old.pem())
        .certificate(client.cert_pem(), client.key_pem())
        .on_the_next_run()
        .answers_with_proxy(tunnel.url())
        .proxy_authority(new.pem())
        .certificate(client.cert_pem(), client.key_pem());
    assert_eq!(status(&stand.client(&plugin), Method::POST, "/echo").await, StatusCode::OK);
    assert_eq!((plugin.runs(), stand.seen("POST")), (2, 1));
}

/// Each start of a proxy may have an authority of its own, and another client may have been the one to start it.
#[tokio::test]
async fn a_client_follows_its_proxy_from_one_certificate_authority_to_the_next() {
    let clock = ManualClock::new(SystemClock::new().now());
    let stand = Stand::at(Arc::new(clock.clone()));
    let authorities = ["first", "second", "third", "fourth"].map(Ca::named);
    let answering = |plugin: Plugin, ca: &Ca| {
        let client = ca.client("client").issue();
        plugin
            .answers_with_proxy(stand.tunnel().url())
            .proxy_authority(ca.pem())
            .certificate(client.cert_pem(), client.key_pem())
    };
    let (first, rest) = authorities.split_first().unwrap();
    let follows = answering(Plugin::new(), first);
    let follows = rest.iter().fold(follows, |plugin, ca| answering(plugin.on_the_next_run(), ca));
    let follower = stand.client(&follows);
    for (run, ca) in (1..).zip(&authorities) {
        let tunnel = stand.tunnel().with_tls(&ca.server().issue(), ca);
        let leads = answering(Plugin::new().listens(&tunnel), ca).hangs();
        let leader = stand.client(&leads);
        assert_eq!(get(&leader).await, StatusCode::OK);
        assert_eq!(status(&follower, Method::POST, "/echo").await, StatusCode::OK);
        assert_eq!((follows.runs(), stand.seen("POST")), (run, run));
        drop(leader);
        let pid = leads.pids()[0];
        tokio::task::spawn_blocking(move || wait_for_end(pid)).await.unwrap();
        clock.advance(Duration::from_secs(60));
    }
}

/// With TLS 1.3 a client hears of it after it has sent its request.
#[tokio::test]
async fn a_client_whose_certificate_is_refused_gets_another_though_it_only_writes() {
    let stand = Stand::new();
    let (local, old) = (Ca::named("local"), Ca::named("old"));
    let tunnel = stand.tunnel().with_tls(&local.server().issue(), &local);
    let certificates = [&old, &local].map(|ca| ca.client("client").issue());
    let plugin = Plugin::new()
        .leaves_a_proxy(&tunnel)
        .answers_with_proxy(tunnel.url())
        .proxy_authority(local.pem())
        .certificate(certificates[0].cert_pem(), certificates[0].key_pem())
        .on_the_next_run()
        .answers_with_proxy(tunnel.url())
        .proxy_authority(local.pem())
        .certificate(certificates[1].cert_pem(), certificates[1].key_pem());
    let client = stand.client(&plugin);
    // If the refusal comes before anything of it has gone out, it is sent again.
    let first = send(&client, Method::POST, "/echo").await;
    first.as_ref().inspect_err(|error| stand.watch.error(&***error)).ok();
    assert_eq!(status(&client, Method::POST, "/echo").await, StatusCode::OK);
    assert_eq!((plugin.runs(), stand.seen("POST")), (2, 1 + usize::from(first.is_ok())));
}

#[tokio::test]
async fn what_is_no_certificate_authority_is_refused() {
    let stand = Stand::new();
    let plugin = stand.starter().proxy_authority("rubbish");
    let error = stand.error(&stand.client(&plugin)).await;
    assert_eq!(error, "the plugin's proxy cannot be used: the certificate authorities hold no certificate in PEM");
}

#[tokio::test]
async fn a_port_of_this_machine_will_do_if_both_sides_show_a_certificate() {
    let stand = Stand::new();
    let ca = Ca::named("local");
    let proxy = Server::setup(&ca).client_certificates(ClientCertificates::Required).start_in_thread();
    let client = ca.client("local client").issue();
    let plugin = Plugin::new()
        .answers_with_proxy(proxy.url())
        .proxy_authority(ca.pem())
        .certificate(client.cert_pem(), client.key_pem());
    let server = "https://api.invalid:6443";
    let client = Client::new(&stand.resolve(server, &plugin), stand.options()).unwrap();
    assert_eq!(get(&client).await, StatusCode::OK);
    let seen = proxy.last_request();
    assert_eq!(seen.common_name(), Some("local client"));
    assert_eq!(seen.alpn.as_deref(), Some("h2"));
}
