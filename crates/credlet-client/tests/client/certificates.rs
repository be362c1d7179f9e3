//! Certificates from plugins: shown, rotated without a restart, and never again after that.

use std::time::Duration;

use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::server::{ClientCertificates, Server};
use http::StatusCode;
use http_body_util::BodyExt as _;

use crate::{client, get, status};

#[tokio::test(flavor = "multi_thread")]
async fn token_and_certificate_are_both_shown() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let ca = Ca::new();
    let ada = ca.client("ada").issue();
    watch.adopt("key", ada.key_pem());
    let server = Server::setup(&ca).client_certificates(ClientCertificates::Optional).start();
    let plugin = Plugin::answering(token.expose()).certificate(ada.cert_pem(), ada.key_pem());
    let client = client(&server, &ca, &plugin);
    assert_eq!(status(&client, "/version").await, StatusCode::OK);
    let seen = server.last_request();
    assert_eq!((seen.bearer(), seen.common_name()), (Some(token.expose()), Some("ada")));
    assert_eq!(plugin.runs(), 1);
    watch.text(format!("{client:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_rotates_under_an_open_watch_and_the_old_one_is_not_shown_again() {
    let ca = Ca::new();
    let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
    let server = Server::setup(&ca).client_certificates(ClientCertificates::Required).start();
    server.accept_client("one");
    let plugin = Plugin::new()
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
    // The watch that was open goes on as it was.
    assert!(watch.frame().await.unwrap().is_ok());
    // No connection of the second certificate is a resumed one of the first.
    assert!(server.requests().iter().filter(|seen| seen.common_name() == Some("two")).all(|seen| !seen.resumed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_before_it_expires_and_no_request_waits() {
    let ca = Ca::new();
    let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
    let server = Server::setup(&ca).client_certificates(ClientCertificates::Required).start();
    let plugin = Plugin::new()
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
