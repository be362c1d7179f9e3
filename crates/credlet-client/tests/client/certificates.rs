//! Client certificates from plugins: use and rotation.

use std::time::Duration;

use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::{ClientCertificates, FakeApiServer};
use http::StatusCode;
use http_body_util::BodyExt as _;

use crate::{client, get, status};

#[tokio::test(flavor = "multi_thread")]
async fn sends_token_and_certificate() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let ca = TestCa::new();
    let ada = ca.client("ada").issue();
    watch.adopt("key", ada.key_pem());
    let server = FakeApiServer::setup(&ca).client_certificates(ClientCertificates::Optional).start();
    let plugin = TestPlugin::answering(token.expose()).certificate(ada.cert_pem(), ada.key_pem());
    let client = client(&server, &ca, &plugin);
    assert_eq!(status(&client, "/version").await, StatusCode::OK);
    let seen = server.last_request();
    assert_eq!((seen.bearer(), seen.common_name()), (Some(token.expose()), Some("ada")));
    assert_eq!(plugin.runs(), 1);
    watch.text(format!("{client:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rotates_certificate_under_open_watch() {
    let ca = TestCa::new();
    let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
    let server = FakeApiServer::setup(&ca).client_certificates(ClientCertificates::Required).start();
    server.accept_client("one");
    let plugin = TestPlugin::new()
        .answers_with_certificate(one.cert_pem(), one.key_pem())
        .on_the_next_run()
        .answers_with_certificate(two.cert_pem(), two.key_pem());
    let client = client(&server, &ca, &plugin);
    let mut watch = get(&client, "/watch?interval_ms=10").await.into_body();
    assert!(watch.frame().await.unwrap().is_ok());

    // The server stops accepting the first one: the next request finds out, and is sent once more with the second.
    server.revoke_client("one");
    server.accept_client("two");
    for _ in 0..5 {
        assert_eq!(status(&client, "/version").await, StatusCode::OK);
        let seen = server.last_request();
        assert_eq!((seen.common_name(), seen.header("authorization")), (Some("two"), None));
    }
    assert_eq!(plugin.runs(), 2);
    // The open watch continues.
    assert!(watch.frame().await.unwrap().is_ok());
    // No connection of the second certificate is a resumed one of the first.
    assert!(server.requests().iter().filter(|seen| seen.common_name() == Some("two")).all(|seen| !seen.resumed));
}

#[tokio::test(flavor = "multi_thread")]
async fn renews_certificate_before_expiry() {
    let ca = TestCa::new();
    let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
    let server = FakeApiServer::setup(&ca).client_certificates(ClientCertificates::Required).start();
    let plugin = TestPlugin::new()
        .answers_with_certificate(one.cert_pem(), one.key_pem())
        .expiring_in(Duration::from_secs(3))
        .on_the_next_run()
        .answers_with_certificate(two.cert_pem(), two.key_pem());
    let client = client(&server, &ca, &plugin);
    let rotated = async {
        while server.requests().last().and_then(|seen| seen.common_name().map(str::to_owned)) != Some("two".into()) {
            assert_eq!(status(&client, "/version").await, StatusCode::OK);
        }
    };
    tokio::time::timeout(crate::HANG, rotated).await.unwrap();
    assert_eq!(plugin.runs(), 2);
}
