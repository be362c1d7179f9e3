//! Replacement of credentials while requests are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use credlet_http::{CredentialGeneration, HttpClient};
use credlet_testkit::logs::LeakCheck;
use http::header::{CONNECTION, UPGRADE};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::support::server::{FakeServer, FakeServerOptions};
use crate::support::{client, credential, event, get, open, request, settings, until, whole, with_timeout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_token_is_used_on_open_connection() {
    let server = FakeServer::start().await;
    let client = client(&server);
    for (generation, token) in [(1, "t1"), (2, "t2"), (3, "t3")] {
        client.publish(credential(generation, token, None)).unwrap();
        assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), format!("nobody {token} connection=1 h2=true"));
    }
    // An older generation is ignored.
    client.publish(credential(2, "t2", None)).unwrap();
    let answer = with_timeout(open(&client, "/")).await.unwrap();
    assert_eq!(answer.extensions().get(), Some(&CredentialGeneration(3)));
    assert_eq!(client.generation(), 3);
    assert_eq!(crate::support::text(answer).await.unwrap(), "nobody t3 connection=1 h2=true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_certificate_replaces_connections() {
    // In HTTP/1.1 another connection may be opened before the first is back in the pool.
    for (protocol, left) in [("h2", 1), ("http/1.1", 2)] {
        let server = FakeServer::with(FakeServerOptions { alpn: vec![protocol], ..FakeServerOptions::default() }).await;
        let client = client(&server);
        let (one, two) = (server.ca.client("one").issue(), server.ca.client("two").issue());
        let watch = LeakCheck::new();
        watch.adopt("key", one.key_pem());
        client.publish(credential(1, "t1", Some(&one))).unwrap();
        assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("one t1 "), "{protocol}");
        // The same certificate keeps the connections.
        client.publish(credential(2, "t2", Some(&one))).unwrap();
        assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("one t2 "), "{protocol}");
        client.publish(credential(3, "t3", Some(&two))).unwrap();
        assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("two t3 "), "{protocol}");
        client.publish(credential(4, "t4", None)).unwrap();
        assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("nobody t4 "), "{protocol}");
        assert!(protocol != "h2" || server.accepted() == 3);
        until(|| server.live() <= left).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_flight_requests_keep_their_credential() {
    let server = FakeServer::start().await;
    let client = client(&server);
    let (one, two) = (server.ca.client("one").issue(), server.ca.client("two").issue());
    client.publish(credential(1, "t1", Some(&one))).unwrap();
    let mut watch = with_timeout(open(&client, "/watch")).await.unwrap().into_body();
    assert_eq!(event(&mut watch).await.unwrap().unwrap(), "begun\n");
    let slow = client.clone();
    let slow = tokio::spawn(async move { get(&slow, "/slow").await });
    until(|| server.seen.waiting.load(SeqCst) == 1).await;

    client.publish(credential(2, "t2", Some(&two))).unwrap();
    assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("two t2 "));
    server.seen.answer_slow.notify_one();
    assert_eq!(with_timeout(slow).await.unwrap().unwrap(), "one t1");
    server.tell("news\n");
    assert_eq!(event(&mut watch).await.unwrap().unwrap(), "news\n");
    server.tell("end");
    let end = event(&mut watch).await;
    assert!(end.is_none(), "{end:?}");
    // The old connection closes with its last request.
    until(|| server.live() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_timeout_closes_with_rotated_error() {
    for (protocol, left) in [("h2", 1), ("http/1.1", 2)] {
        let server = FakeServer::with(FakeServerOptions { alpn: vec![protocol], ..FakeServerOptions::default() }).await;
        let mut settings = settings(&server.url(), server.ca.pem());
        settings.drain_timeout = Some(Duration::from_millis(200));
        let client = HttpClient::new(settings).unwrap();
        let mut watch = with_timeout(open(&client, "/watch")).await.unwrap().into_body();
        assert_eq!(event(&mut watch).await.unwrap().unwrap(), "begun\n");
        client.publish(credential(1, "t1", Some(&server.ca.client("one").issue()))).unwrap();
        let error = event(&mut watch).await.expect("not a clean end").unwrap_err();
        assert!(error.is_credential_rotated(), "{protocol} {}", whole(&error));
        assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("one t1 "));
        until(|| server.live() <= left).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_timeout_closes_upgraded_stream() {
    let server = FakeServer::start().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.drain_timeout = Some(Duration::ZERO);
    let client = HttpClient::new(settings).unwrap();
    let mut request = request(http::Method::GET, "/echo", "");
    request.headers_mut().insert(CONNECTION, "upgrade".parse().unwrap());
    request.headers_mut().insert(UPGRADE, "echo".parse().unwrap());
    let mut response = with_timeout(client.send(request)).await.unwrap();
    let mut stream = TokioIo::new(with_timeout(hyper::upgrade::on(&mut response)).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    with_timeout(stream.read_exact(&mut back)).await.unwrap();
    client.publish(credential(1, "t1", Some(&server.ca.client("one").issue()))).unwrap();
    let error = with_timeout(stream.read_exact(&mut back)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_resume_only_within_a_certificate() {
    for tls12 in [true, false] {
        let server = FakeServer::with(FakeServerOptions { tls12, ..FakeServerOptions::default() }).await;
        let client = client(&server);
        for n in 1..=20 {
            let name = format!("user-{n}");
            client.publish(credential(n, "t", Some(&server.ca.client(&name).issue()))).unwrap();
            let answer = with_timeout(get(&client, "/")).await.unwrap();
            assert!(answer.starts_with(&name), "{answer}");
        }
        assert_eq!((server.accepted(), server.resumed()), (20, 0));
        // One more connection with the same certificate.
        server.drop_connections();
        until(|| server.live() == 0).await;
        assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("user-20 "));
        assert_eq!((server.accepted(), server.resumed()), (21, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_under_load_loses_no_request() {
    let server = FakeServer::start().await;
    let client = client(&server);
    let identities: Vec<_> = (0..=38).map(|n| server.ca.client(&n.to_string()).issue()).collect();
    let (current, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let answers = Arc::new(AtomicUsize::new(0));
    client.publish(credential(1, "0", Some(&identities[0]))).unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..32 {
        let (client, current, stop, answers) = (client.clone(), current.clone(), stop.clone(), answers.clone());
        callers.spawn(async move {
            let mut wrong = Vec::new();
            while !stop.load(SeqCst) {
                let at_start = current.load(SeqCst);
                match with_timeout(get(&client, "/")).await {
                    Ok(answer) => {
                        let mut parts = answer.split(' ');
                        let (user, token) = (parts.next().unwrap(), parts.next().unwrap());
                        if user != token || user.parse::<u64>().unwrap() < at_start {
                            wrong.push(format!("{answer} although {at_start} was current"));
                        }
                    }
                    Err(error) => wrong.push(whole(&error)),
                }
                answers.fetch_add(1, SeqCst);
            }
            wrong
        });
    }
    for n in 1..=38_u64 {
        let before = answers.load(SeqCst);
        until(|| answers.load(SeqCst) >= before + 100).await;
        let index = usize::try_from(n).unwrap();
        client.publish(credential(n + 1, &n.to_string(), Some(&identities[index]))).unwrap();
        current.store(n, SeqCst);
    }
    stop.store(true, SeqCst);
    assert_eq!(with_timeout(callers.join_all()).await.concat(), Vec::<String>::new());
    println!("{} answers over {} connections, {} resumed", answers.load(SeqCst), server.accepted(), server.resumed());
    assert_eq!(server.resumed(), 0);
    // Only the connection of the last generation is left.
    assert!(with_timeout(get(&client, "/")).await.unwrap().starts_with("38 38 "));
    until(|| server.live() == 1).await;
}
