//! HTTP/1.1: upgrades, and servers that know nothing newer.

use credlet_client::conn::{Client, Error};
use http::header::{CONNECTION, UPGRADE};
use http::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::support::raw::Raw;
use crate::support::server::{Options, Server};
use crate::support::{client, get, open, post, request, settings, soon, text, until, whole};

async fn old_server() -> Server {
    Server::with(Options { alpn: vec!["http/1.1"], ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_http2_is_spoken_to_on_the_connection_that_found_out() {
    let server = old_server().await;
    let client = client(&server);
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_can_be_left_out() {
    let server = Server::start().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.tuning.http2 = false;
    let client = Client::new(settings).unwrap();
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_read_takes_http1_and_whoever_comes_meanwhile_and_every_write_shares_http2() {
    let server = Server::start().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.tuning.lone_http1 = true;
    let client = Client::new(settings).unwrap();
    for _ in 0..3 {
        assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
    }
    let lone = soon(open(&client, "/")).await.unwrap();
    for _ in 0..3 {
        assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=2 h2=true");
    }
    assert_eq!(soon(text(lone)).await.unwrap(), "nobody none connection=1 h2=false");
    assert_eq!(soon(post(&client, "/", "x")).await.unwrap(), "nobody none connection=2 h2=true");
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=false");
    // One that is given up makes room as well.
    drop(soon(open(&client, "/watch")).await.unwrap());
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=3 h2=false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_goes_over_http1_beside_the_http2_connection() {
    let server = Server::start().await;
    let client = client(&server);
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=true");
    for method in [Method::GET, Method::POST] {
        let mut request = request(method, "/echo", "");
        request.headers_mut().insert(CONNECTION, "Upgrade".parse().unwrap());
        request.headers_mut().insert(UPGRADE, "SPDY/3.1".parse().unwrap());
        let mut response = soon(client.send(request)).await.unwrap();
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let mut stream = TokioIo::new(soon(hyper::upgrade::on(&mut response)).await.unwrap());
        stream.write_all(b"hello").await.unwrap();
        let mut back = [0; 5];
        soon(stream.read_exact(&mut back)).await.unwrap();
        assert_eq!(&back, b"hello");
    }
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "nobody none connection=1 h2=true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_idle_connection_costs_a_get_nothing() {
    let server = old_server().await;
    let client = client(&server);
    let mut failed = Vec::new();
    for _ in 0..200 {
        soon(get(&client, "/")).await.unwrap();
        server.die();
        failed.extend(soon(get(&client, "/")).await.err().map(|error| whole(&error)));
    }
    assert_eq!(failed, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posts_and_goodbyes_never_make_one_arrive_twice() {
    let server = old_server().await;
    let client = client(&server);
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let client = client.clone();
        callers.spawn(async move {
            for n in 0..60 {
                match post(&client, "/once", format!("{caller}-{n}")).await {
                    Ok(_) | Err(Error::Broken { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    let mut until_next = 20;
    for n in 0.. {
        // The next caller to finish, or enough arrivals for the next order.
        tokio::select! {
            done = soon(callers.join_next()) => match done {
                Some(done) => done.unwrap(),
                None => break,
            },
            () = until(|| server.seen.arrived.lock().unwrap().len() > until_next) => {
                until_next += 20;
                if n % 10 == 9 { server.die() } else { server.goodbye() }
            }
        }
    }
    let arrived = server.seen.arrived.lock().unwrap();
    assert!(arrived.len() > 300 && arrived.values().all(|times| *times == 1), "{}", arrived.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_nobody_needs_any_more_ends_as_tls_wants_it() {
    let (ended, mut how) = tokio::sync::mpsc::unbounded_channel();
    let raw = Raw::start(move |_, mut conn| {
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
    // One that is idle when its client goes, and one whose answer nobody wants to read.
    let client = Client::new(settings.clone()).unwrap();
    assert_eq!(soon(get(&client, "/")).await.unwrap(), "ok");
    drop(client);
    assert_eq!(soon(how.recv()).await.unwrap(), Ok(0));
    let client = Client::new(settings).unwrap();
    drop(soon(open(&client, "/")).await.unwrap());
    assert_eq!(soon(how.recv()).await.unwrap(), Ok(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_idle_connections_are_kept_as_the_tuning_says() {
    let server = old_server().await;
    let mut settings = settings(&server.url(), server.ca.pem());
    settings.tuning.idle_connections = 30;
    let client = Client::new(settings).unwrap();
    for _ in 0..2 {
        let mut answers = Vec::new();
        for _ in 0..32 {
            answers.push(soon(open(&client, "/")).await.unwrap());
        }
        assert_eq!(server.live(), 32);
        for answer in answers {
            soon(text(answer)).await.unwrap();
        }
        until(|| server.live() == 30).await;
    }
    assert_eq!(server.accepted(), 34, "two were closed, and made again");
}

/// Answers each request in twenty pieces, between which everybody else gets a turn.
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
async fn whatever_comes_at_whatever_moment_is_heard_of_by_the_task_that_waits_for_it_then() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(settings(&format!("http://{}", listener.local_addr().unwrap()), "")).unwrap();
    tokio::spawn(drip(listener));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let client = client.clone();
        tasks.spawn(async move {
            for round in 0..100 {
                let answer = soon(open(&client, "/")).await.unwrap();
                // The connection is driven by one task after the other.
                let text = if round % 2 == 0 { tokio::spawn(text(answer)).await.unwrap() } else { text(answer).await };
                assert_eq!(text.unwrap(), "drop ".repeat(20));
            }
        });
    }
    soon(tasks.join_all()).await;
}
