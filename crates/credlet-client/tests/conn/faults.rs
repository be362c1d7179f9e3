//! What servers and networks do: each row of `spec/connections.md`, section 4.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use credlet_client::conn::{Client, Connecting, Error, Route, SentWith, Target};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::support::raw::{INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, Raw};
use crate::support::server::{Options, Server};
use crate::support::{client, credential, event, get, open, post, settings, soon, until, whole};

fn raw_client(raw: &Raw) -> Client {
    Client::new(settings(&raw.url(), raw.ca.pem())).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_outlives_a_goodbye_and_new_requests_go_elsewhere() {
    let server = Server::start().await;
    let client = client(&server);
    let mut watch = soon(open(&client, "/watch")).await.unwrap().into_body();
    assert_eq!(event(&mut watch).await.unwrap().unwrap(), "begun\n");
    server.goodbye();
    until(|| {
        server.tell("news\n");
        server.accepted() == 1
    })
    .await;
    for _ in 0..10 {
        soon(get(&client, "/")).await.unwrap();
    }
    assert_eq!(event(&mut watch).await.unwrap().unwrap(), "news\n");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_that_dies_as_a_get_starts_costs_nothing() {
    let server = Server::start().await;
    let client = client(&server);
    for _ in 0..300 {
        soon(get(&client, "/")).await.unwrap();
        server.die();
        // At once, so that the request meets the connection in every state of dying.
        soon(get(&client, "/")).await.unwrap();
    }
}

/// A proven connection that behaves like this for its second request, and good ones after it.
async fn second_request<F: Future<Output = ()> + Send + 'static>(
    bad: impl Fn(crate::support::raw::Conn, u32) -> F + Send + Sync + 'static,
) -> Raw {
    let bad = Arc::new(bad);
    Raw::start(move |number, mut conn| {
        let bad = bad.clone();
        async move {
            conn.hello(100).await;
            if number > 1 {
                return conn.be_good().await;
            }
            let Some(first) = conn.request().await else { return };
            conn.answer(first, Some(b"first")).await;
            if let Some(second) = conn.request().await {
                bad(conn, second).await;
            }
        }
    })
    .await
}

async fn outcome(raw: Raw, method: &str) -> (Result<String, Error>, usize) {
    let client = raw_client(&raw);
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "first");
    let result = match method {
        "GET" => soon(get(&client, "/")).await,
        _ => soon(post(&client, "/", "body")).await,
    };
    (result, raw.accepted())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_stream_is_sent_again_whatever_it_is() {
    for method in ["GET", "POST"] {
        let raw = second_request(|mut conn, stream| async move {
            conn.reset(stream, REFUSED_STREAM).await;
            conn.be_good().await;
        })
        .await;
        assert_eq!(outcome(raw, method).await.0.unwrap(), "good", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_again_leaves_with_the_newest_credential() {
    let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let raw = Raw::start({
        let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
        move |_, mut conn| {
            let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
            async move {
                conn.hello(100).await;
                let stream = conn.request().await.unwrap();
                asked.notify_one();
                answer.notified().await;
                conn.reset(stream, REFUSED_STREAM).await;
                conn.be_good().await;
            }
        }
    })
    .await;
    let client = raw_client(&raw);
    client.publish(credential(1, "t1", None)).unwrap();
    let sent = tokio::spawn({
        let client = client.clone();
        async move { open(&client, "/").await }
    });
    asked.notified().await;
    client.publish(credential(2, "t2", None)).unwrap();
    answer.notify_one();
    let response = soon(sent).await.unwrap().unwrap();
    assert_eq!(response.extensions().get(), Some(&SentWith(2)));
    assert_eq!(crate::support::text(response).await.unwrap(), "good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_goodbye_before_a_request_lets_it_be_sent_again_whatever_it_is() {
    for method in ["GET", "POST"] {
        let raw = second_request(|mut conn, stream| async move {
            conn.goaway(stream - 2, NO_ERROR).await;
            conn.be_silent().await;
        })
        .await;
        let (result, accepted) = outcome(raw, method).await;
        assert_eq!((result.unwrap().as_str(), accepted), ("good", 2), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_goodbye_that_covers_it_and_a_close_only_a_get_is_sent_again() {
    for clean in [true, false] {
        let covering = move || {
            second_request(move |mut conn, stream| async move {
                conn.goaway(stream, NO_ERROR).await;
                if clean {
                    conn.close().await;
                }
            })
        };
        let (result, accepted) = outcome(covering().await, "GET").await;
        assert_eq!((result.unwrap().as_str(), accepted), ("good", 2), "clean={clean}");
        let (result, accepted) = outcome(covering().await, "POST").await;
        assert!(matches!(result, Err(Error::Broken { .. })), "clean={clean} {result:?}");
        assert_eq!(accepted, 1);
    }
}

/// More threads than cores, so that now and then one is stopped between the request's leaving and the next step.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_goodbye_that_is_read_while_a_write_is_being_handed_over_does_not_double_it() {
    let raw = Raw::start(|_, mut conn| async move {
        conn.hello(100).await;
        let Some(first) = conn.request().await else { return };
        conn.answer(first, Some(b"first")).await;
        if let Some(second) = conn.request().await {
            conn.goaway(second, NO_ERROR).await;
            conn.close().await;
        }
    })
    .await;
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let client = raw_client(&raw);
        clients.spawn(async move {
            for round in 0..100 {
                assert_eq!(soon(get(&client, "/")).await.unwrap(), "first");
                let result = soon(post(&client, "/", "body")).await;
                assert!(matches!(result, Err(Error::Broken { .. })), "round {round}: {result:?}");
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_death_without_a_byte_only_a_get_is_sent_again() {
    let (result, accepted) = outcome(second_request(|_, _| async {}).await, "GET").await;
    assert_eq!((result.unwrap().as_str(), accepted), ("good", 2));
    let (result, accepted) = outcome(second_request(|_, _| async {}).await, "POST").await;
    let Err(error @ Error::Broken { .. }) = result else { panic!("{result:?}") };
    let text = whole(&error);
    // Which of the two depends on what the server has read.
    let words = ["the server closed it without ending TLS", "Connection reset by peer"];
    assert!(words.iter().any(|words| text.contains(&format!("broke: {words}"))), "{text}");
    assert!(!text.contains("http"), "an address in {text}");
    assert_eq!(accepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_is_not_sent_again_on_a_connection_that_never_answered() {
    let raw = Raw::start(|_, mut conn| async move {
        conn.hello(100).await;
        conn.request().await;
    })
    .await;
    let error = soon(get(&raw_client(&raw), "/")).await.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error:?}");
    assert_eq!(raw.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_for_any_other_reason_is_an_error() {
    let raw = second_request(|mut conn, stream| async move {
        conn.reset(stream, INTERNAL_ERROR).await;
        conn.be_good().await;
    })
    .await;
    let (result, accepted) = outcome(raw, "GET").await;
    let Err(error @ Error::Reset { .. }) = result else { panic!("{result:?}") };
    assert!(error.to_string().ends_with("reset the request (INTERNAL_ERROR)"), "{error}");
    assert_eq!(accepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_everything_is_not_asked_for_ever() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let raw = Raw::start(move |_, mut conn| {
        let count = count.clone();
        async move {
            conn.hello(100).await;
            while let Some(stream) = conn.request().await {
                count.fetch_add(1, SeqCst);
                conn.reset(stream, REFUSED_STREAM).await;
            }
        }
    })
    .await;
    let error = soon(get(&raw_client(&raw), "/")).await.unwrap_err();
    assert!(matches!(error, Error::Reset { .. }), "{error:?}");
    assert_eq!(asked.load(SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_cut_never_ends_cleanly() {
    for protocol in ["h2", "http/1.1"] {
        let server = Server::with(Options { alpn: vec![protocol], ..Options::default() }).await;
        let mut watch = soon(open(&client(&server), "/watch")).await.unwrap().into_body();
        assert_eq!(event(&mut watch).await.unwrap().unwrap(), "begun\n");
        server.die();
        let error = event(&mut watch).await.expect("not a clean end").unwrap_err();
        assert!(matches!(error, Error::Broken { .. }), "{protocol} {error:?}");
        assert!(!error.is_rotated());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_is_unreachable_meanwhile_and_then_well() {
    let server = Server::start().await;
    let (client, at) = (client(&server), server.at);
    soon(get(&client, "/")).await.unwrap();
    let ca = server.stop().await;
    let error = soon(get(&client, "/")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(whole(&error), format!("{at} cannot be reached: Connection refused (os error 111)"));
    let server = Server::under(ca, Options { port: at.port(), ..Options::default() }).await;
    soon(get(&client, "/")).await.unwrap();
    assert_eq!(server.resumed(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_hangs_is_one_socket_and_one_error_for_all_who_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let sockets = Arc::new(Mutex::new(Vec::new()));
    let held = sockets.clone();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            held.lock().unwrap().push(socket);
        }
    });
    let mut settings = settings(&format!("https://{at}"), credlet_testkit::ca::Ca::new().pem());
    settings.limits.tls = Duration::from_millis(300);
    let client = Client::new(settings).unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..5 {
        let client = client.clone();
        callers.spawn(async move { get(&client, "/").await.unwrap_err().to_string() });
    }
    for error in soon(callers.join_all()).await {
        assert_eq!(error, format!("{at} did not answer within 0.3 seconds (TLS handshake)"));
    }
    assert_eq!(sockets.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_limit_holds_over_connecting_and_tls_together() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings =
        settings(&format!("https://{}", listener.local_addr().unwrap()), credlet_testkit::ca::Ca::new().pem());
    settings.limits.dial = Duration::from_millis(200);
    let error = soon(get(&Client::new(settings).unwrap(), "/")).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { after, .. } if after == Duration::from_millis(200)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_settings_is_given_up() {
    let raw = Raw::start(|_, mut conn| async move { conn.be_silent().await }).await;
    let mut settings = settings(&raw.url(), raw.ca.pem());
    settings.limits.tls = Duration::from_secs(1);
    let client = Client::new(settings).unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        callers.spawn(async move { get(&client, "/").await.unwrap_err().to_string() });
    }
    for error in soon(callers.join_all()).await {
        assert!(error.ends_with("broke: no HTTP/2 settings came within 1 seconds"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_gone_silent_is_noticed_by_pings() {
    let raw = Raw::start(|_, mut conn| async move {
        conn.hello(100).await;
        let Some(stream) = conn.request().await else { return };
        conn.answer(stream, None).await;
        conn.data(stream, b"begun").await;
        conn.be_silent().await;
    })
    .await;
    let mut settings = settings(&raw.url(), raw.ca.pem());
    let ping = settings.tuning.ping.as_mut().unwrap();
    (ping.interval, ping.timeout) = (Duration::from_millis(300), Duration::from_millis(200));
    let client = Client::new(settings).unwrap();
    let mut watch = soon(open(&client, "/watch")).await.unwrap().into_body();
    assert_eq!(event(&mut watch).await.unwrap().unwrap(), "begun");
    let error = event(&mut watch).await.expect("not a clean end").unwrap_err();
    assert!(error.to_string().ends_with("broke: it has gone silent"), "{}", whole(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_storm_of_posts_and_goodbyes_none_arrives_twice() {
    let server = Server::start().await;
    let client = client(&server);
    let (done, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for caller in 0..32 {
        let (client, stop, done, failed) = (client.clone(), stop.clone(), done.clone(), failed.clone());
        callers.spawn(async move {
            for n in 0.. {
                if stop.load(SeqCst) {
                    return;
                }
                match post(&client, "/once", format!("{caller}-{n}")).await {
                    Ok(_) => done.fetch_add(1, SeqCst),
                    // What became of it is really not known.
                    Err(Error::Broken { .. }) => failed.fetch_add(1, SeqCst),
                    Err(other) => panic!("{other:?}"),
                };
            }
        });
    }
    for n in 0..100 {
        let before = done.load(SeqCst);
        // More than there are callers, or some of them would meet nothing but goodbyes.
        until(|| done.load(SeqCst) >= before + 64).await;
        if n % 10 == 9 { server.die() } else { server.goodbye() }
    }
    stop.store(true, SeqCst);
    soon(callers.join_all()).await;
    let arrived = server.seen.arrived.lock().unwrap();
    assert_eq!(arrived.iter().filter(|(_, times)| **times > 1).collect::<Vec<_>>(), []);
    assert!(arrived.len() >= done.load(SeqCst));
    println!(
        "{} posts, {} of them with an unknown outcome, {} connections",
        done.load(SeqCst),
        failed.load(SeqCst),
        server.accepted()
    );
}

/// The first connection breaks under one of its first writes; the others are good.
#[derive(Debug)]
struct Brittle {
    at: SocketAddr,
    /// What is left of them on the first one.
    writes: Mutex<Option<usize>>,
}

impl Route for Brittle {
    fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect(self.at).await.unwrap();
            stream.set_nodelay(true).unwrap();
            Ok(Box::new(Breaking { stream, writes: self.writes.lock().unwrap().take() }) as _)
        })
    }
}

/// Broken for good when none is left.
struct Breaking {
    stream: TcpStream,
    writes: Option<usize>,
}

impl AsyncRead for Breaking {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        match self.writes {
            // Nothing else comes, nor a reason.
            Some(0) => Poll::Ready(Ok(())),
            _ => Pin::new(&mut self.stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Breaking {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        match &mut self.writes {
            Some(0) => return Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into())),
            Some(left) => *left -= 1,
            None => {}
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Between the handshake of TLS and the first request HTTP/2 has something to say of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_before_the_first_request_is_on_it_is_made_again() {
    let server = Server::start().await;
    let mut became = Vec::new();
    for writes in 0..8 {
        let route = Brittle { at: server.at, writes: Mutex::new(Some(writes)) };
        let mut settings = settings(&server.url(), server.ca.pem());
        settings.route = Some(Arc::new(route));
        became.push(match soon(post(&Client::new(settings).unwrap(), "/once", format!("{writes}"))).await {
            Ok(_) => "sent",
            Err(Error::Handshake { .. }) => "refused",
            // The request itself was among what broke.
            Err(Error::Broken { .. }) => "lost",
            Err(other) => panic!("{writes}: {other:?}"),
        });
    }
    became.dedup();
    assert_eq!(became[..2], ["refused", "sent"]);
}
