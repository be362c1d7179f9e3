//! Ten thousand requests across an expiry, a certificate rotation and a revocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use credlet_client::conn::Payload;
use credlet_testkit::ca::Ca;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::server::{ClientCertificates, Server};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;

use crate::{HANG, client, get};

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_requests_survive_an_expiry_a_rotation_and_a_revocation() {
    // Without the log check, which would look through a line for every frame: the other tests here have it.
    let tokens = ["first-token", "second-token", "third-token"];
    let ca = Ca::new();
    let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
    let server = Server::setup(&ca).client_certificates(ClientCertificates::Required).start_in_thread();
    tokens.iter().for_each(|token| server.accept_token(*token));
    let slow = Duration::from_secs(1);
    // The second answer is renewed ahead of the first one's expiry and brings another certificate; the third is asked
    // for because the second token is revoked.
    let plugin = Plugin::new()
        .sleeps(slow)
        .answers(tokens[0])
        .certificate(one.cert_pem(), one.key_pem())
        .expiring_in(Duration::from_secs(5))
        .on_the_next_run()
        .sleeps(slow)
        .answers(tokens[1])
        .certificate(two.cert_pem(), two.key_pem())
        .on_the_next_run()
        .sleeps(slow)
        .answers(tokens[2])
        .certificate(two.cert_pem(), two.key_pem());
    let client = client(&server, &ca, &plugin);
    let mut open_watch = get(&client, "/watch?interval_ms=50").await.into_body();
    assert_eq!(plugin.runs(), 1);

    let (sent, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let at_once = Arc::new(Semaphore::new(200));
    let mut tasks = Vec::new();
    for number in 0..10_000 {
        if number == 8_000 {
            // Both of what came before have happened by now.
            plugin.has_run(2).await;
            send_until(|| server.last_request().bearer() == Some(tokens[1]), &client).await;
            server.revoke_token(tokens[1]);
        }
        let permit = Arc::clone(&at_once).acquire_owned().await.unwrap();
        let (client, sent, failed) = (client.clone(), Arc::clone(&sent), Arc::clone(&failed));
        tasks.push(tokio::spawn(async move {
            let answer = client.send(Request::get("/version").body(Payload::empty()).unwrap()).await;
            let ok = match answer {
                Ok(answer) if answer.status() == StatusCode::OK => answer.into_body().collect().await.is_ok(),
                _ => false,
            };
            sent.fetch_add(1, Ordering::Relaxed);
            if !ok {
                failed.fetch_add(1, Ordering::Relaxed);
            }
            drop(permit);
        }));
    }
    for task in tasks {
        tokio::time::timeout(HANG, task).await.unwrap().unwrap();
    }
    assert_eq!((sent.load(Ordering::Relaxed), failed.load(Ordering::Relaxed)), (10_000, 0));
    assert_eq!(plugin.runs(), 3);
    assert_eq!(server.last_request().bearer(), Some(tokens[2]));
    // The watch that was opened under the first certificate is still there.
    assert!(open_watch.frame().await.unwrap().is_ok());
}

/// Sends requests until the server has seen what is waited for.
async fn send_until(mut seen: impl FnMut() -> bool, client: &credlet_client::Client) {
    let wait = async {
        while !seen() {
            crate::status(client, "/version").await;
        }
    };
    tokio::time::timeout(HANG, wait).await.unwrap();
}
