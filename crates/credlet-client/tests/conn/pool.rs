//! The HTTP/2 pool: under load, with slow and fickle callers, and when nothing is to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use credlet_client::conn::{Body, Client, Credential, Crypto};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::raw::Raw;
use crate::support::server::{Options, Server};
use crate::support::{bearer, client, event, get, open, post, settings, soon, until, whole};

async fn watches(client: &Client, count: usize) -> Vec<Body> {
    let mut opening = JoinSet::new();
    for _ in 0..count {
        let client = client.clone();
        opening.spawn(async move {
            let mut body = open(&client, "/watch").await.unwrap().into_body();
            assert_eq!(event(&mut body).await.unwrap().unwrap(), "begun\n");
            body
        });
    }
    soon(opening.join_all()).await
}

/// Opens watches, sends requests behind them, and returns the number of connections.
async fn load(count: usize, streams: u32) -> usize {
    let server = Server::with(Options { streams, ..Options::default() }).await;
    let client = client(&server);
    let mut watches = watches(&client, count).await;
    let dials = server.accepted();
    for _ in 0..50 {
        soon(get(&client, "/")).await.unwrap();
    }
    let mut many = JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        many.spawn(async move { get(&client, "/").await.unwrap() });
    }
    soon(many.join_all()).await;
    server.tell("news\n");
    for watch in &mut watches {
        assert_eq!(event(watch).await.unwrap().unwrap(), "news\n");
    }
    dials
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_watches_and_gets_behind_them_need_three_connections() {
    assert_eq!(load(300, 100).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_watches_fit_a_server_that_takes_thirty_at_a_time() {
    assert_eq!(load(300, 30).await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_watches_fit_a_server_that_takes_one_or_five_at_a_time() {
    // What was sent before the server said how many is refused and finds another place.
    assert_eq!(load(40, 5).await, 8);
    assert_eq!(load(40, 1).await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_goodbyes_under_load_lose_nothing() {
    let server = Server::start().await;
    let client = client(&server);
    let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..16 {
        let (client, stop, answers) = (client.clone(), stop.clone(), answers.clone());
        callers.spawn(async move {
            let mut errors = Vec::new();
            while !stop.load(SeqCst) {
                errors.extend(soon(get(&client, "/")).await.err().map(|error| whole(&error)));
                answers.fetch_add(1, SeqCst);
            }
            errors
        });
    }
    for _ in 0..40 {
        let before = answers.load(SeqCst);
        until(|| answers.load(SeqCst) >= before + 50).await;
        server.goodbye();
    }
    stop.store(true, SeqCst);
    assert_eq!(soon(callers.join_all()).await.concat(), Vec::<String>::new());
    println!("{} answers over {} connections", answers.load(SeqCst), server.accepted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_give_up_while_connecting_harm_nobody() {
    let server = Server::start().await;
    let client = client(&server);
    let mut callers = JoinSet::new();
    for n in 0..40 {
        let client = client.clone();
        callers.spawn(async move {
            if n % 2 == 0 {
                // Polled once, which is enough to start the dial or to wait for it.
                let _ = tokio::time::timeout(Duration::ZERO, get(&client, "/")).await;
            } else {
                get(&client, "/").await.unwrap();
            }
        });
    }
    soon(callers.join_all()).await;
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fickle_callers_leave_no_place_taken() {
    let server = Server::with(Options { streams: 20, ..Options::default() }).await;
    let client = client(&server);
    let mut callers = JoinSet::new();
    for n in 0..400_u64 {
        let client = client.clone();
        callers.spawn(async move {
            let call = get(&client, if n % 3 == 0 { "/watch" } else { "/" });
            let _ = tokio::time::timeout(Duration::from_micros(n * 37 % 9000), call).await;
        });
    }
    soon(callers.join_all()).await;
    // If a place were lost, twenty watches would need a second connection.
    let before = server.accepted();
    let first_fit = watches(&client, 20).await;
    assert_eq!(server.accepted(), before);
    drop(first_fit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_answer_keeps_its_http2_connection_and_closes_an_http1_one() {
    for (protocol, connections) in [("h2", 1), ("http/1.1", 2)] {
        let server = Server::with(Options { alpn: vec![protocol], ..Options::default() }).await;
        let client = client(&server);
        drop(watches(&client, 1).await);
        if protocol == "http/1.1" {
            until(|| server.live() == 0).await;
        }
        soon(get(&client, "/")).await.unwrap();
        assert_eq!(server.accepted(), connections, "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_stop_nobody_else() {
    let server = Server::start().await;
    let client = client(&server);
    let mut floods = Vec::new();
    for _ in 0..99 {
        floods.push(soon(open(&client, "/flood")).await.unwrap());
    }
    for _ in 0..20 {
        soon(get(&client, "/")).await.unwrap();
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_streams_than_fit_the_window_go_to_another_connection() {
    let server = Server::with(Options { streams: 250, ..Options::default() }).await;
    let mut settings = settings(&server.url(), server.ca.pem());
    (settings.tuning.stream_window, settings.tuning.connection_window) = (1 << 20, 8 << 20);
    let client = Client::new(settings).unwrap();
    let watches = watches(&client, 20).await;
    assert_eq!((watches.len(), server.accepted()), (20, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steady_watch_survives_a_thousand_lively_ones_that_are_given_up() {
    let server = Server::start().await;
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
        soon(floods.join_all()).await;
    }
    server.tell("news\n");
    assert_eq!(event(&mut steady[0]).await.unwrap().unwrap(), "news\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_small_frames_may_lie_unread() {
    let raw = Raw::start(|_, mut conn| async move {
        conn.hello(100).await;
        let first = conn.request().await.unwrap();
        conn.answer(first, None).await;
        for _ in 0..4000 {
            conn.data(first, &[b'x'; 100]).await;
        }
        conn.be_good().await;
    })
    .await;
    let client = Client::new(settings(&raw.url(), raw.ca.pem())).unwrap();
    let unread = soon(open(&client, "/watch")).await.unwrap();
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "good");
    assert_eq!(raw.accepted(), 1);
    drop(unread);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_close_and_busy_ones_do_not() {
    for protocol in ["h2", "http/1.1"] {
        let server = Server::with(Options { streams: 1, alpn: vec![protocol], ..Options::default() }).await;
        let mut settings = settings(&server.url(), server.ca.pem());
        settings.tuning.idle = Duration::from_millis(300);
        let client = Client::new(settings).unwrap();
        let mut watches = watches(&client, 3).await;
        soon(get(&client, "/")).await.unwrap();
        assert_eq!(server.live(), 4, "{protocol}");
        until(|| server.live() == 3).await;
        // Longer than the limit since they were opened: a connection with a watch on it is not idle.
        server.tell("news\n");
        for watch in &mut watches {
            assert_eq!(event(watch).await.unwrap().unwrap(), "news\n");
        }
        drop(watches);
        until(|| server.live() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_client_closes_what_is_idle() {
    for protocol in ["h2", "http/1.1"] {
        let server = Server::with(Options { alpn: vec![protocol], ..Options::default() }).await;
        let client = client(&server);
        soon(get(&client, "/")).await.unwrap();
        drop(client);
        until(|| server.live() == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_arrives_whole() {
    for protocol in ["h2", "http/1.1"] {
        let server = Server::with(Options { alpn: vec![protocol], ..Options::default() }).await;
        let length = soon(post(&client(&server), "/length", vec![b'x'; 5_000_000])).await.unwrap();
        assert_eq!(length, "5000000");
    }
}

#[test]
fn a_client_outlives_the_runtime_that_dialled() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (outer, first) = (runtime(), runtime());
    let server = outer.block_on(Server::start());
    let client = client(&server);
    first.block_on(soon(get(&client, "/"))).unwrap();
    first.shutdown_background();
    outer.block_on(async {
        until(|| server.live() == 0).await;
        soon(get(&client, "/")).await.unwrap();
        assert_eq!(server.accepted(), 2);
    });
}

#[test]
fn a_dial_that_dies_with_its_runtime_keeps_nobody_waiting() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (outer, first) = (runtime(), runtime());
    outer.block_on(async {
        // Never answers the handshake.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings =
            settings(&format!("https://{}", listener.local_addr().unwrap()), credlet_testkit::ca::Ca::new().pem());
        settings.limits.tls = Duration::from_secs(2);
        let client = Client::new(settings).unwrap();
        let dialling = client.clone();
        first.spawn(async move { get(&dialling, "/").await });
        let (held, _) = listener.accept().await.unwrap();
        let waiting = tokio::spawn(async move { get(&client, "/").await });
        tokio::task::yield_now().await;
        first.shutdown_background();
        // The one who waited dials for himself.
        let (again, _) = soon(listener.accept()).await.unwrap();
        assert!(soon(waiting).await.unwrap().is_err());
        drop((held, again));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_callers_own_authorization_is_left_alone_and_no_other_server_gets_ours() {
    let watch = credlet_testkit::logs::Watch::new();
    let token = watch.secret("token");
    let server = Server::start().await;
    let client = client(&server);
    client.publish(Credential::new(1, Some(bearer(token.expose())), None)).unwrap();
    let sent = format!("nobody {} connection=1 h2=true", token.expose());
    assert_eq!(soon(get(&client, "/")).await.unwrap(), sent);
    let mut request = crate::support::request(http::Method::GET, "/", "");
    request.headers_mut().insert("authorization", bearer("my own"));
    let answer = soon(client.send(request)).await.unwrap();
    assert_eq!(crate::support::text(answer).await.unwrap(), "nobody my own connection=1 h2=true");
    let error = soon(get(&client, "https://evil.example/?token=1")).await.unwrap_err();
    watch.error(&error);
    watch.text(format!("{client:?}"));
    assert_eq!(
        error.to_string(),
        format!("a request for evil.example does not belong on a connection to {}", server.at)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_crypto_provider_is_installed_for_the_process() {
    let server = Server::start().await;
    soon(get(&client(&server), "/")).await.unwrap();
    let _ = Crypto::aws_lc_rs();
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}
