//! Failures of servers and networks: GOAWAY, resets, lost connections, timeouts.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use credlet_http::{ConnectFuture, CredentialGeneration, HostPort, HttpClient, HttpError, Route};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::support::raw::{INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, RawServer};
use crate::support::server::{FakeServer, FakeServerOptions};
use crate::support::{client, credential, event, get, open, post, settings, until, whole, with_timeout};

fn raw_client(raw: &RawServer) -> HttpClient {
    HttpClient::new(settings(&raw.url(), raw.ca.pem())).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_survives_goaway() {
    let server = FakeServer::start().await;
    let client = client(&server);
    let mut watch = with_timeout(open(&client, "/watch")).await.unwrap().into_body();
    assert_eq!(event(&mut watch).await.unwrap().unwrap(), "begun\n");
    server.send_goaway();
    until(|| {
        server.tell("news\n");
        server.accepted() == 1
    })
    .await;
    for _ in 0..10 {
        with_timeout(get(&client, "/")).await.unwrap();
    }
    assert_eq!(event(&mut watch).await.unwrap().unwrap(), "news\n");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_survives_connection_dying_at_start() {
    let server = FakeServer::start().await;
    let client = client(&server);
    for _ in 0..300 {
        with_timeout(get(&client, "/")).await.unwrap();
        server.drop_connections();
        // Without delay, so that the request meets the connection in every state of closing.
        with_timeout(get(&client, "/")).await.unwrap();
    }
}

/// Runs the script for the second request of a proven connection. Later connections work.
async fn second_request<F: Future<Output = ()> + Send + 'static>(
    bad: impl Fn(crate::support::raw::Conn, u32) -> F + Send + Sync + 'static,
) -> RawServer {
    let bad = Arc::new(bad);
    RawServer::start(move |number, mut conn| {
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

async fn outcome(raw: RawServer, method: &str) -> (Result<String, HttpError>, usize) {
    let client = raw_client(&raw);
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "first");
    let result = match method {
        "GET" => with_timeout(get(&client, "/")).await,
        _ => with_timeout(post(&client, "/", "body")).await,
    };
    (result, raw.accepted())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_stream_is_retried() {
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
async fn retry_uses_the_newest_credential() {
    let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let raw = RawServer::start({
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
    let response = with_timeout(sent).await.unwrap().unwrap();
    assert_eq!(response.extensions().get(), Some(&CredentialGeneration(2)));
    assert_eq!(crate::support::text(response).await.unwrap(), "good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goaway_before_request_is_retried() {
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
async fn goaway_covering_request_retries_only_get() {
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
        assert!(matches!(result, Err(HttpError::ConnectionLost { .. })), "clean={clean} {result:?}");
        assert_eq!(accepted, 1);
    }
}

/// More threads than cores, so that a thread is sometimes preempted between sending the request and the next step.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn goaway_during_send_does_not_double_a_write() {
    let raw = RawServer::start(|_, mut conn| async move {
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
                assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "first");
                let result = with_timeout(post(&client, "/", "body")).await;
                assert!(matches!(result, Err(HttpError::ConnectionLost { .. })), "round {round}: {result:?}");
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connection_retries_only_get() {
    let (result, accepted) = outcome(second_request(|_, _| async {}).await, "GET").await;
    assert_eq!((result.unwrap().as_str(), accepted), ("good", 2));
    let (result, accepted) = outcome(second_request(|_, _| async {}).await, "POST").await;
    let Err(error @ HttpError::ConnectionLost { .. }) = result else { panic!("{result:?}") };
    let text = whole(&error);
    // Which one depends on how much the server has read.
    let words = ["closed by the server without close_notify", "Connection reset by peer"];
    assert!(words.iter().any(|words| text.contains(&format!("failed: {words}"))), "{text}");
    assert!(!text.contains("http"), "an address in {text}");
    assert_eq!(accepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_on_unproven_connection_is_not_retried() {
    let raw = RawServer::start(|_, mut conn| async move {
        conn.hello(100).await;
        conn.request().await;
    })
    .await;
    let error = with_timeout(get(&raw_client(&raw), "/")).await.unwrap_err();
    assert!(matches!(error, HttpError::ConnectionLost { .. }), "{error:?}");
    assert_eq!(raw.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_stream_reset_is_an_error() {
    let raw = second_request(|mut conn, stream| async move {
        conn.reset(stream, INTERNAL_ERROR).await;
        conn.be_good().await;
    })
    .await;
    let (result, accepted) = outcome(raw, "GET").await;
    let Err(error @ HttpError::Reset { .. }) = result else { panic!("{result:?}") };
    assert!(error.to_string().ends_with("reset the stream (INTERNAL_ERROR)"), "{error}");
    assert_eq!(accepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_are_limited() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let raw = RawServer::start(move |_, mut conn| {
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
    let error = with_timeout(get(&raw_client(&raw), "/")).await.unwrap_err();
    assert!(matches!(error, HttpError::Reset { .. }), "{error:?}");
    assert_eq!(asked.load(SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_body_is_an_error() {
    for protocol in ["h2", "http/1.1"] {
        let server = FakeServer::with(FakeServerOptions { alpn: vec![protocol], ..FakeServerOptions::default() }).await;
        let mut watch = with_timeout(open(&client(&server), "/watch")).await.unwrap().into_body();
        assert_eq!(event(&mut watch).await.unwrap().unwrap(), "begun\n");
        server.drop_connections();
        let error = event(&mut watch).await.expect("not a clean end").unwrap_err();
        assert!(matches!(error, HttpError::ConnectionLost { .. }), "{protocol} {error:?}");
        assert!(!error.is_credential_rotated());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovers_after_server_restart() {
    let server = FakeServer::start().await;
    let (client, at) = (client(&server), server.at);
    with_timeout(get(&client, "/")).await.unwrap();
    let ca = server.stop().await;
    let error = with_timeout(get(&client, "/")).await.unwrap_err();
    assert!(matches!(error, HttpError::Unreachable { .. }), "{error:?}");
    assert_eq!(whole(&error), format!("{at} cannot be reached: Connection refused (os error 111)"));
    let server = FakeServer::under(ca, FakeServerOptions { port: at.port(), ..FakeServerOptions::default() }).await;
    with_timeout(get(&client, "/")).await.unwrap();
    assert_eq!(server.resumed(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_handshake_is_shared_by_all_waiters() {
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
    let mut settings = settings(&format!("https://{at}"), credlet_testkit::ca::TestCa::new().pem());
    settings.timeouts.tls = Duration::from_millis(300);
    let client = HttpClient::new(settings).unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..5 {
        let client = client.clone();
        callers.spawn(async move { get(&client, "/").await.unwrap_err().to_string() });
    }
    for error in with_timeout(callers.join_all()).await {
        assert_eq!(error, format!("connection to {at} timed out after 0.3 s (TLS handshake)"));
    }
    assert_eq!(sockets.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dial_timeout_covers_connect_and_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings =
        settings(&format!("https://{}", listener.local_addr().unwrap()), credlet_testkit::ca::TestCa::new().pem());
    settings.timeouts.dial = Duration::from_millis(200);
    let error = with_timeout(get(&HttpClient::new(settings).unwrap(), "/")).await.unwrap_err();
    assert!(matches!(error, HttpError::TimedOut { after, .. } if after == Duration::from_millis(200)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closes_connection_without_settings() {
    let raw = RawServer::start(|_, mut conn| async move { conn.be_silent().await }).await;
    let mut settings = settings(&raw.url(), raw.ca.pem());
    settings.timeouts.tls = Duration::from_secs(1);
    let client = HttpClient::new(settings).unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        callers.spawn(async move { get(&client, "/").await.unwrap_err().to_string() });
    }
    for error in with_timeout(callers.join_all()).await {
        assert!(error.ends_with("failed: timed out waiting for HTTP/2 settings (1 s)"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ping_detects_dead_network() {
    let raw = RawServer::start(|_, mut conn| async move {
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
    let client = HttpClient::new(settings).unwrap();
    let mut watch = with_timeout(open(&client, "/watch")).await.unwrap().into_body();
    assert_eq!(event(&mut watch).await.unwrap().unwrap(), "begun");
    let error = event(&mut watch).await.expect("not a clean end").unwrap_err();
    assert!(error.to_string().ends_with("failed: keep-alive ping timed out"), "{}", whole(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goaway_storm_never_doubles_a_post() {
    let server = FakeServer::start().await;
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
                    // Whether it was processed is unknown.
                    Err(HttpError::ConnectionLost { .. }) => failed.fetch_add(1, SeqCst),
                    Err(other) => panic!("{other:?}"),
                };
            }
        });
    }
    for n in 0..100 {
        let before = done.load(SeqCst);
        // More than the number of callers, or some of them would meet only GOAWAY.
        until(|| done.load(SeqCst) >= before + 64).await;
        if n % 10 == 9 { server.drop_connections() } else { server.send_goaway() }
    }
    stop.store(true, SeqCst);
    with_timeout(callers.join_all()).await;
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

/// Route on which the first connection fails at one of its first writes. Later connections work.
#[derive(Debug)]
struct Brittle {
    at: SocketAddr,
    /// Remaining successful writes of the first connection.
    writes: Mutex<Option<usize>>,
}

impl Route for Brittle {
    fn connect<'a>(&'a self, _: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect(self.at).await.unwrap();
            stream.set_nodelay(true).unwrap();
            Ok(Box::new(Breaking { stream, writes: self.writes.lock().unwrap().take() }) as _)
        })
    }
}

/// Stream that fails when no writes are left.
struct Breaking {
    stream: TcpStream,
    writes: Option<usize>,
}

impl AsyncRead for Breaking {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        match self.writes {
            // No data and no alert.
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

/// HTTP/2 writes its preface between the TLS handshake and the first request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconnects_if_lost_before_first_request() {
    let server = FakeServer::start().await;
    let mut became = Vec::new();
    for writes in 0..8 {
        let route = Brittle { at: server.at, writes: Mutex::new(Some(writes)) };
        let mut settings = settings(&server.url(), server.ca.pem());
        settings.route = Some(Arc::new(route));
        became.push(
            match with_timeout(post(&HttpClient::new(settings).unwrap(), "/once", format!("{writes}"))).await {
                Ok(_) => "sent",
                Err(HttpError::Handshake { .. }) => "refused",
                // The request was part of the failed write.
                Err(HttpError::ConnectionLost { .. }) => "lost",
                Err(other) => panic!("{writes}: {other:?}"),
            },
        );
    }
    became.dedup();
    assert_eq!(became[..2], ["refused", "sent"]);
}
