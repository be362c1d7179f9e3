//! HTTP/1.1: upgrades, and servers without HTTP/2.

use credlet_http::{HttpClient, HttpError};
use http::header::{CONNECTION, UPGRADE};
use http::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::support::raw::RawServer;
use crate::support::server::{FakeServer, FakeServerOptions};
use crate::support::{client, get, open, post, request, settings, text, until, whole, with_timeout};

async fn old_server() -> FakeServer {
    FakeServer::with(FakeServerOptions { alpn: vec!["http/1.1"], ..FakeServerOptions::default() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http1_server_reuses_the_probe_connection() {
    let server = old_server().await;
    let client = client(&server);
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_can_be_left_out() {
    let server = FakeServer::start().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.tuning.http2 = false;
    let client = HttpClient::new(settings).unwrap();
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_read_uses_http1_others_use_http2() {
    let server = FakeServer::start().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.tuning.prefer_http1_when_idle = true;
    let client = HttpClient::new(settings).unwrap();
    for _ in 0..3 {
        assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
    }
    let lone = with_timeout(open(&client, "/")).await.unwrap();
    for _ in 0..3 {
        assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=2 h2=true");
    }
    assert_eq!(with_timeout(text(lone)).await.unwrap(), "nobody none connection=1 h2=false");
    assert_eq!(with_timeout(post(&client, "/", "x")).await.unwrap(), "nobody none connection=2 h2=true");
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
    // A canceled request releases its permit as well.
    drop(with_timeout(open(&client, "/watch")).await.unwrap());
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=3 h2=false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_uses_http1() {
    let server = FakeServer::start().await;
    let client = client(&server);
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=true");
    for method in [Method::GET, Method::POST] {
        let mut request = request(method, "/echo", "");
        request.headers_mut().insert(CONNECTION, "Upgrade".parse().unwrap());
        request.headers_mut().insert(UPGRADE, "SPDY/3.1".parse().unwrap());
        let mut response = with_timeout(client.send(request)).await.unwrap();
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let mut stream = TokioIo::new(with_timeout(hyper::upgrade::on(&mut response)).await.unwrap());
        stream.write_all(b"hello").await.unwrap();
        let mut back = [0; 5];
        with_timeout(stream.read_exact(&mut back)).await.unwrap();
        assert_eq!(&back, b"hello");
    }
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_survives_dead_idle_connection() {
    let server = old_server().await;
    let client = client(&server);
    let mut failed = Vec::new();
    for _ in 0..200 {
        with_timeout(get(&client, "/")).await.unwrap();
        server.drop_connections();
        failed.extend(with_timeout(get(&client, "/")).await.err().map(|error| whole(&error)));
    }
    assert_eq!(failed, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goaway_never_doubles_a_post() {
    let server = old_server().await;
    let client = client(&server);
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let client = client.clone();
        callers.spawn(async move {
            for n in 0..60 {
                match post(&client, "/once", format!("{caller}-{n}")).await {
                    Ok(_) | Err(HttpError::ConnectionLost { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    let mut until_next = 20;
    for n in 0.. {
        // The next completed caller, or enough arrivals for the next order.
        tokio::select! {
            done = with_timeout(callers.join_next()) => match done {
                Some(done) => done.unwrap(),
                None => break,
            },
            () = until(|| server.seen.arrived.lock().unwrap().len() > until_next) => {
                until_next += 20;
                if n % 10 == 9 { server.drop_connections() } else { server.send_goaway() }
            }
        }
    }
    let arrived = server.seen.arrived.lock().unwrap();
    assert!(arrived.len() > 300 && arrived.values().all(|times| *times == 1), "{}", arrived.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_connection_sends_close_notify() {
    let (ended, mut how) = tokio::sync::mpsc::unbounded_channel();
    let raw = RawServer::start(move |_, mut conn| {
        let ended = ended.clone();
        async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(conn.stream.read_u8().await.unwrap());
            }
            conn.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            let _ = ended.send(conn.stream.read(&mut [0]).await.map_err(|error| error.to_string()));
        }
    })
    .await;
    let mut settings = settings(&raw.url(), raw.ca.pem());
    settings.tuning.http2 = false;
    // One is idle when the client is dropped, the other has an unread response.
    let client = HttpClient::new(settings.clone()).unwrap();
    assert_eq!(with_timeout(get(&client, "/")).await.unwrap(), "ok");
    drop(client);
    assert_eq!(with_timeout(how.recv()).await.unwrap(), Ok(0));
    let client = HttpClient::new(settings).unwrap();
    drop(with_timeout(open(&client, "/")).await.unwrap());
    assert_eq!(with_timeout(how.recv()).await.unwrap(), Ok(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_idle_connections() {
    let server = old_server().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.tuning.max_idle_connections = 30;
    let client = HttpClient::new(settings).unwrap();
    for _ in 0..2 {
        let mut answers = Vec::new();
        for _ in 0..32 {
            answers.push(with_timeout(open(&client, "/")).await.unwrap());
        }
        assert_eq!(server.live(), 32);
        for answer in answers {
            with_timeout(text(answer)).await.unwrap();
        }
        until(|| server.live() == 30).await;
    }
    assert_eq!(server.accepted(), 34, "two were closed, and made again");
}

/// Responds to each request in twenty chunks and yields to other tasks between them.
async fn drip(listener: tokio::net::TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut head = Vec::new();
            while stream.read_buf(&mut head).await.is_ok_and(|read| read > 0) {
                if !head.ends_with(b"\r\n\r\n") {
                    continue;
                }
                head.clear();
                stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                    stream.write_all(b"5\r\ndrop \r\n").await.unwrap();
                }
                stream.write_all(b"0\r\n\r\n").await.unwrap();
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wakeup_is_lost() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = HttpClient::new(settings(&format!("http://{}", listener.local_addr().unwrap()), "")).unwrap();
    tokio::spawn(drip(listener));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let client = client.clone();
        tasks.spawn(async move {
            for round in 0..100 {
                let answer = with_timeout(open(&client, "/")).await.unwrap();
                // Different tasks drive the connection in turn.
                let text = if round % 2 == 0 { tokio::spawn(text(answer)).await.unwrap() } else { text(answer).await };
                assert_eq!(text.unwrap(), "drop ".repeat(20));
            }
        });
    }
    with_timeout(tasks.join_all()).await;
}
