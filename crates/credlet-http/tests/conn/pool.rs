//! The HTTP/2 pool: under load, with slow readers and canceled callers, and when idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use credlet_http::{CryptoBackend, HttpClient, HttpCredential, ResponseBody};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::raw::RawServer;
use crate::support::server::{FakeServer, FakeServerOptions};
use crate::support::{bearer, client, event, get, open, post, settings, until, whole, with_timeout};

async fn watches(client: &HttpClient, count: usize) -> Vec<ResponseBody> {
    let mut opening = JoinSet::new();
    for _ in 0..count {
        let client = client.clone();
        opening.spawn(async move {
            let mut body = open(&client, "/watch").await.unwrap().into_body();
            assert_eq!(event(&mut body).await.unwrap().unwrap(), "begun\n");
            body
        });
    }
    with_timeout(opening.join_all()).await
}

/// Opens watches, sends requests behind them, and returns the number of connections.
async fn load(count: usize, streams: u32) -> usize {
    let server = FakeServer::with(FakeServerOptions { streams, ..FakeServerOptions::default() }).await;
    let client = client(&server);
    let mut watches = watches(&client, count).await;
    let dials = server.accepted();
    for _ in 0..50 {
        with_timeout(get(&client, "/")).await.unwrap();
    }
    let mut many = JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        many.spawn(async move { get(&client, "/").await.unwrap() });
    }
    with_timeout(many.join_all()).await;
    server.tell("news\n");
    for watch in &mut watches {
        assert_eq!(event(watch).await.unwrap().unwrap(), "news\n");
    }
    dials
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_and_gets_share_three_connections() {
    assert_eq!(load(300, 100).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_watches_with_limit_thirty() {
    assert_eq!(load(300, 30).await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_watches_with_small_stream_limit() {
    // Requests sent before SETTINGS arrived are refused and retried on another stream.
    assert_eq!(load(40, 5).await, 8);
    assert_eq!(load(40, 1).await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_goaways_under_load_lose_nothing() {
    let server = FakeServer::start().await;
    let client = client(&server);
    let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..16 {
        let (client, stop, answers) = (client.clone(), stop.clone(), answers.clone());
        callers.spawn(async move {
            let mut errors = Vec::new();
            while !stop.load(SeqCst) {
                errors.extend(with_timeout(get(&client, "/")).await.err().map(|error| whole(&error)));
                answers.fetch_add(1, SeqCst);
            }
            errors
        });
    }
    for _ in 0..40 {
        let before = answers.load(SeqCst);
        until(|| answers.load(SeqCst) >= before + 50).await;
        server.send_goaway();
    }
    stop.store(true, SeqCst);
    assert_eq!(with_timeout(callers.join_all()).await.concat(), Vec::<String>::new());
    println!("{} answers over {} connections", answers.load(SeqCst), server.accepted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canceled_callers_do_not_affect_others() {
    let server = FakeServer::start().await;
    let client = client(&server);
    let mut callers = JoinSet::new();
    for n in 0..40 {
        let client = client.clone();
        callers.spawn(async move {
            if n % 2 == 0 {
                // One poll starts the dial or waits for it.
                let _ = tokio::time::timeout(Duration::ZERO, get(&client, "/")).await;
            } else {
                get(&client, "/").await.unwrap();
            }
        });
    }
    with_timeout(callers.join_all()).await;
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canceled_callers_release_their_stream() {
    let server = FakeServer::with(FakeServerOptions { streams: 20, ..FakeServerOptions::default() }).await;
    let client = client(&server);
    let mut callers = JoinSet::new();
    for n in 0..400_u64 {
        let client = client.clone();
        callers.spawn(async move {
            let call = get(&client, if n % 3 == 0 { "/watch" } else { "/" });
            let _ = tokio::time::timeout(Duration::from_micros(n * 37 % 9000), call).await;
        });
    }
    with_timeout(callers.join_all()).await;
    // If a stream were leaked, twenty watches would need a second connection.
    let before = server.accepted();
    let first_fit = watches(&client, 20).await;
    assert_eq!(server.accepted(), before);
    drop(first_fit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_body_closes_only_http1_connection() {
    for (protocol, connections) in [("h2", 1), ("http/1.1", 2)] {
        let server = FakeServer::with(FakeServerOptions { alpn: vec![protocol], ..FakeServerOptions::default() }).await;
        let client = client(&server);
        drop(watches(&client, 1).await);
        if protocol == "http/1.1" {
            until(|| server.live() == 0).await;
        }
        with_timeout(get(&client, "/")).await.unwrap();
        assert_eq!(server.accepted(), connections, "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_do_not_block_others() {
    let server = FakeServer::start().await;
    let client = client(&server);
    let mut floods = Vec::new();
    for _ in 0..99 {
        floods.push(with_timeout(open(&client, "/flood")).await.unwrap());
    }
    for _ in 0..20 {
        with_timeout(get(&client, "/")).await.unwrap();
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_beyond_window_use_another_connection() {
    let server = FakeServer::with(FakeServerOptions { streams: 250, ..FakeServerOptions::default() }).await;
    let mut settings = settings(&server.url(), server.ca.pem());
    (settings.tuning.stream_window, settings.tuning.connection_window) = (1 << 20, 8 << 20);
    let client = HttpClient::new(settings).unwrap();
    let watches = watches(&client, 20).await;
    assert_eq!((watches.len(), server.accepted()), (20, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_survives_1000_canceled_streams() {
    let server = FakeServer::start().await;
    let client = client(&server);
    let mut steady = watches(&client, 1).await;
    for _ in 0..20 {
        let mut floods = JoinSet::new();
        for _ in 0..60 {
            let client = client.clone();
            floods.spawn(async move {
                let mut body = open(&client, "/flood").await.unwrap().into_body();
                event(&mut body).await.unwrap().unwrap();
            });
        }
        with_timeout(floods.join_all()).await;
    }
    server.tell("news\n");
    assert_eq!(event(&mut steady[0]).await.unwrap().unwrap(), "news\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepts_many_unread_small_frames() {
    let raw = RawServer::start(|_, mut conn| async move {
        conn.hello(100).await;
        let first = conn.request().await.unwrap();
        conn.answer(first, None).await;
        for _ in 0..4000 {
            conn.data(first, &[b'x'; 100]).await;
        }
        conn.be_good().await;
    })
    .await;
    let client = HttpClient::new(settings(&raw.url(), raw.ca.pem())).unwrap();
    let unread = with_timeout(open(&client, "/watch")).await.unwrap();
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "good");
    assert_eq!(raw.accepted(), 1);
    drop(unread);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closes_only_idle_connections() {
    for protocol in ["h2", "http/1.1"] {
        let server =
            FakeServer::with(FakeServerOptions { streams: 1, alpn: vec![protocol], ..FakeServerOptions::default() })
                .await;
        let mut settings = settings(&server.url(), server.ca.pem());
        settings.tuning.idle_timeout = Duration::from_millis(300);
        let client = HttpClient::new(settings).unwrap();
        let mut watches = watches(&client, 3).await;
        with_timeout(get(&client, "/")).await.unwrap();
        assert_eq!(server.live(), 4, "{protocol}");
        until(|| server.live() == 3).await;
        // Older than the idle timeout, but a connection with a watch is not idle.
        server.tell("news\n");
        for watch in &mut watches {
            assert_eq!(event(watch).await.unwrap().unwrap(), "news\n");
        }
        drop(watches);
        until(|| server.live() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_client_closes_idle_connections() {
    for protocol in ["h2", "http/1.1"] {
        let server = FakeServer::with(FakeServerOptions { alpn: vec![protocol], ..FakeServerOptions::default() }).await;
        let client = client(&server);
        with_timeout(get(&client, "/")).await.unwrap();
        drop(client);
        until(|| server.live() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_arrives_whole() {
    for protocol in ["h2", "http/1.1"] {
        let server = FakeServer::with(FakeServerOptions { alpn: vec![protocol], ..FakeServerOptions::default() }).await;
        let length = with_timeout(post(&client(&server), "/length", vec![b'x'; 5_000_000])).await.unwrap();
        assert_eq!(length, "5000000");
    }
}

#[test]
fn client_outlives_the_dialing_runtime() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (outer, first) = (runtime(), runtime());
    let server = outer.block_on(FakeServer::start());
    let client = client(&server);
    first.block_on(with_timeout(get(&client, "/"))).unwrap();
    first.shutdown_background();
    outer.block_on(async {
        until(|| server.live() == 0).await;
        with_timeout(get(&client, "/")).await.unwrap();
        assert_eq!(server.accepted(), 2);
    });
}

#[test]
fn dial_fails_when_its_runtime_is_dropped() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (outer, first) = (runtime(), runtime());
    outer.block_on(async {
        // Does not respond to the handshake.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings =
            settings(&format!("https://{}", listener.local_addr().unwrap()), credlet_testkit::ca::TestCa::new().pem());
        settings.timeouts.tls = Duration::from_secs(2);
        let client = HttpClient::new(settings).unwrap();
        let dialling = client.clone();
        first.spawn(async move { get(&dialling, "/").await });
        let (held, _) = listener.accept().await.unwrap();
        let waiting = tokio::spawn(async move { get(&client, "/").await });
        tokio::task::yield_now().await;
        first.shutdown_background();
        // The waiting request opens its own connection.
        let (again, _) = with_timeout(listener.accept()).await.unwrap();
        assert!(with_timeout(waiting).await.unwrap().is_err());
        drop((held, again));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_authorization_and_rejects_other_servers() {
    let watch = credlet_testkit::logs::LeakCheck::new();
    let token = watch.secret("token");
    let server = FakeServer::start().await;
    let client = client(&server);
    client.publish(HttpCredential::new(1, Some(bearer(token.expose())), None)).unwrap();
    let sent = format!("nobody {} connection=1 h2=true", token.expose());
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), sent);
    let mut request = crate::support::request(http::Method::GET, "/", "");
    request.headers_mut().insert("authorization", bearer("my own"));
    let answer = with_timeout(client.send(request)).await.unwrap();
    assert_eq!(crate::support::text(answer).await.unwrap(), "nobody my own connection=1 h2=true");
    let error = with_timeout(get(&client, "https://evil.example/?token=1")).await.unwrap_err();
    watch.error(&error);
    watch.text(format!("{client:?}"));
    assert_eq!(error.to_string(), format!("cannot send a request for evil.example to {}", server.at));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn installs_no_process_crypto_provider() {
    let server = FakeServer::start().await;
    with_timeout(get(&client(&server), "/")).await.unwrap();
    let _ = CryptoBackend::aws_lc_rs();
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}
