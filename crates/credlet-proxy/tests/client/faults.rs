//! The proxy is gone: between requests, in the middle of one, or it never was.

use std::io::{BufRead as _, BufReader, Write as _};

use bytes::Bytes;
use credlet_core::ManualClock;
use credlet_testkit::plugin::{Plugin, wait_for_end};
use credlet_testkit::server::Order;
use http_body_util::Full;

use super::*;

#[tokio::test]
async fn a_socket_that_is_missing_or_deserted_makes_the_plugin_run_again_and_the_request_go_through() {
    for deserted in [false, true] {
        let stand = Stand::new();
        let tunnel = stand.tunnel();
        if deserted {
            // Its listener is closed at once, and the file stays.
            drop(std::os::unix::net::UnixListener::bind(tunnel.socket()).unwrap());
            fs::set_permissions(tunnel.socket(), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let plugin = Plugin::new()
            .answers_with_proxy(tunnel.url())
            .on_the_next_run()
            .leaves_a_proxy(&tunnel)
            .answers_with_proxy(tunnel.url());
        let client = stand.client(&plugin);
        // A body that can be read only once: nothing of it was, before there was a proxy.
        let body = Payload::stream(Full::new(Bytes::from_static(b"hello")));
        let response = within(client.send(Request::post("/echo").body(body).unwrap())).await.unwrap();
        let body = within(response.into_body().collect()).await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("hello"));
        assert_eq!((plugin.runs(), stand.seen("POST")), (2, 1));
    }
}

#[tokio::test]
async fn a_proxy_that_is_killed_between_requests_is_reaped_and_started_again_by_the_next() {
    let stand = Stand::new();
    let plugin = stand.server_plugin();
    let client = stand.client(&plugin);
    assert_eq!(status(&client, Method::POST, "/echo").await, StatusCode::OK);
    let pid = plugin.pids()[0];
    kill(pid);
    if fs::exists("/proc/self/stat").unwrap() {
        // It is a child of this process, and not even a zombie of it is left.
        let entry = PathBuf::from(format!("/proc/{pid}"));
        within(async {
            while entry.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
    assert_eq!(status(&client, Method::POST, "/echo").await, StatusCode::OK);
    assert_eq!((plugin.runs(), stand.seen("POST")), (2, 2));
}

/// As a killed one does, for as long as it takes to die: the kernel lets callers in until the socket is closed.
#[tokio::test]
async fn a_proxy_that_lets_callers_in_and_answers_none_is_replaced_for_a_read_and_gets_no_write_twice() {
    for hears in [true, false] {
        let stand = Stand::new();
        let (deaf, tunnel) =
            (stand.tunnel(), Tunnel::new(&stand.other_dir(), &stand.server, &stand.ca, &stand.identity));
        let listener = std::os::unix::net::UnixListener::bind(deaf.socket()).unwrap();
        fs::set_permissions(deaf.socket(), fs::Permissions::from_mode(0o600)).unwrap();
        std::thread::spawn(move || {
            for caller in listener.incoming() {
                if hears {
                    let lines = BufReader::new(caller.unwrap()).lines().map_while(Result::ok);
                    lines.take_while(|line| !line.is_empty()).for_each(drop);
                }
            }
        });
        let plugin = Plugin::new()
            .answers_with_proxy(deaf.url())
            .on_the_next_run()
            .leaves_a_proxy(&tunnel)
            .answers_with_proxy(tunnel.url());
        let client = stand.client(&plugin);
        if hears {
            let error = send(&client, Method::POST, "/echo").await.unwrap_err();
            stand.watch.error(&*error);
            assert_eq!((plugin.runs(), stand.seen("POST")), (1, 0), "{error}");
        }
        assert_eq!(get(&client).await, StatusCode::OK, "{hears}");
        assert_eq!(plugin.runs(), 2);
    }
}

/// The connection was closed, and nobody has had the time to notice: the first write fails, so not a byte was heard.
#[tokio::test]
async fn a_write_of_which_nothing_was_written_is_sent_again() {
    let stand = Stand::new();
    let tunnel = stand.tunnel();
    let listener = std::os::unix::net::UnixListener::bind(tunnel.socket()).unwrap();
    fs::set_permissions(tunnel.socket(), fs::Permissions::from_mode(0o600)).unwrap();
    let (close, closing) = std::sync::mpsc::channel();
    let (heard, hearing) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for caller in listener.incoming().map(Result::unwrap) {
            let mut lines = BufReader::new(&caller).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            heard.send(lines.next().unwrap()).unwrap();
            lines.for_each(drop);
            (&caller).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            let _ = closing.recv();
            drop(caller);
            let _ = heard.send("closed".into());
        }
    });
    let plugin = Plugin::new().answers_with_proxy(tunnel.url());
    let client = stand.client(&plugin);
    for (method, line) in [(Method::GET, "GET"), (Method::POST, "POST"), (Method::DELETE, "DELETE")] {
        assert_eq!(status(&client, method, "/echo").await, StatusCode::OK);
        assert!(hearing.recv().unwrap().starts_with(line));
        close.send(()).unwrap();
        // Without `await`: nothing else of this test runs meanwhile.
        assert_eq!(hearing.recv().unwrap(), "closed");
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test]
async fn a_proxy_that_is_killed_under_many_requests_costs_one_run_and_loses_no_read() {
    const EACH: usize = 20;
    for tls in [false, true] {
        let stand = Stand::new();
        let (local, mut tunnel) = (Ca::named("local"), stand.tunnel());
        let identity = local.client("client").issue();
        if tls {
            tunnel = tunnel.with_tls(&local.server().issue(), &local);
        }
        let mut plugin = Plugin::new().listens(&tunnel).answers_with_proxy(tunnel.url());
        if tls {
            plugin = plugin.proxy_authority(local.pem()).certificate(identity.cert_pem(), identity.key_pem());
        }
        let plugin = plugin.hangs();
        let client = stand.client(&plugin);
        stand.server.next(2 * EACH, Order::Stall);
        let requests = [Method::GET, Method::POST].map(|method| {
            std::iter::repeat_with(|| spawn(&client, method.clone(), "/echo")).take(EACH).collect::<Vec<_>>()
        });
        within(stand.server.until(|counts| counts.requests == 2 * EACH)).await;
        kill(plugin.pids()[0]);
        let [reads, writes] = requests;
        for read in reads {
            assert_eq!(within(read).await.unwrap().unwrap().status(), StatusCode::OK);
        }
        for write in writes {
            stand.watch.error(&*within(write).await.unwrap().unwrap_err());
        }
        assert_eq!((plugin.runs(), stand.seen("GET"), stand.seen("POST")), (2, 2 * EACH, EACH), "{tls}");
    }
}

#[tokio::test]
async fn a_write_whose_proxy_is_killed_before_the_answer_is_not_sent_again_and_a_read_is() {
    // On a connection that has served before, and on a new one.
    for (method, used, goes_through) in [
        (Method::POST, false, false),
        (Method::POST, true, false),
        (Method::DELETE, true, false),
        (Method::GET, false, true),
        (Method::GET, true, true),
        (Method::OPTIONS, false, true),
    ] {
        let stand = Stand::new();
        let plugin = stand.server_plugin();
        let client = stand.client(&plugin);
        if used {
            assert_eq!(get(&client).await, StatusCode::OK);
        }
        let earlier = stand.server.counts().requests;
        stand.server.next(1, Order::Stall);
        let request = spawn(&client, method.clone(), "/echo");
        within(stand.server.until(|counts| counts.requests > earlier)).await;
        kill(plugin.pids()[0]);
        match within(request).await.unwrap() {
            Ok(response) => assert!(goes_through && response.status() == StatusCode::OK, "{method}"),
            Err(error) => {
                stand.watch.error(&*error);
                assert!(!goes_through, "{method} ({used}): {error}");
            }
        }
        let times = if goes_through { 2 } else { 1 };
        assert_eq!((plugin.runs(), stand.server.counts().requests - earlier), (times, times), "{method}");
        // In any case the next one finds another proxy.
        assert_eq!(get(&client).await, StatusCode::OK);
        assert_eq!(plugin.runs(), 2);
    }
}

#[tokio::test]
async fn a_plugin_that_is_killed_before_or_just_after_its_answer_is_run_again_and_a_write_is_sent_once() {
    let stand = Stand::new();
    let tunnel = stand.tunnel();
    let plugin = Plugin::new()
        .waits_at("before its answer")
        .on_the_next_run()
        .listens(&tunnel)
        .answers_with_proxy(tunnel.url())
        .dies_by(9)
        .on_the_next_run()
        .listens(&tunnel)
        .answers_with_proxy(tunnel.url())
        .hangs();
    let client = stand.client(&plugin);
    let request = spawn(&client, Method::POST, "/echo");
    within(plugin.reached("before its answer")).await;
    kill(plugin.pids()[0]);
    assert_eq!(within(request).await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!((plugin.runs(), stand.seen("POST")), (3, 1));
}

#[tokio::test]
async fn a_plugin_that_is_killed_each_time_is_given_up_after_a_few_runs_and_one_that_crashes_at_once() {
    for (signal, runs, said) in [(9, 4, "was ended by SIGKILL"), (11, 1, "was ended by SIGSEGV")] {
        let clock = ManualClock::new(SystemClock::new().now());
        let stand = Stand::at(Arc::new(clock.clone()));
        let plugin = Plugin::new().dies_by(signal);
        let client = stand.client(&plugin);
        let request = spawn(&client, Method::GET, "/version");
        if runs > 1 {
            // The second at once; the clock stands still, so no further one comes before it moves.
            within(plugin.has_run(2)).await;
            for _ in 0..50 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(plugin.runs(), 2);
        }
        within(async {
            while !request.is_finished() {
                clock.advance(Duration::from_millis(250));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let error = request.await.unwrap().unwrap_err();
        stand.watch.error(&*error);
        assert!(causes(&*error).ends_with(said), "{}", causes(&*error));
        assert_eq!(plugin.runs(), runs);
    }
}

#[tokio::test]
async fn a_refusal_of_the_server_runs_the_plugin_once_more_and_then_stands() {
    let stand = Stand::new();
    let plugin = stand.starter();
    let client = stand.client(&plugin);
    assert_eq!(get(&client).await, StatusCode::OK);
    stand.server.revoke_client("proxied");
    for _ in 0..5 {
        assert_eq!(get(&client).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn a_proxy_that_cannot_be_started_again_is_told_with_the_plugins_words() {
    let stand = Stand::new();
    let tunnel = stand.tunnel();
    let plugin = Plugin::new()
        .answers_with_proxy(tunnel.url())
        .on_the_next_run()
        .prints_to(credlet_testkit::plugin::Stream::Stderr, "no card in the reader\n")
        .exits(1);
    let error = stand.error(&stand.client(&plugin)).await;
    assert!(error.starts_with(&format!("the plugin's proxy at {} is gone, and there is no other: ", tunnel.url())));
    assert!(error.ends_with("exited with code 1: no card in the reader"), "{error}");
}

#[tokio::test]
async fn a_proxy_whose_credential_expires_is_replaced_and_the_old_one_ended() {
    let stand = Stand::new();
    let (one, two) = (stand.tunnel(), Tunnel::new(&stand.other_dir(), &stand.server, &stand.ca, &stand.identity));
    let plugin = Plugin::new()
        .listens(&one)
        .answers_with_proxy(one.url())
        .expiring_in(Duration::from_secs(2))
        .hangs()
        .on_the_next_run()
        .listens(&two)
        .answers_with_proxy(two.url())
        .hangs();
    let client = stand.client(&plugin);
    assert_eq!(get(&client).await, StatusCode::OK);
    // Renewed ahead, behind everybody's back.
    within(plugin.has_run(2)).await;
    within(async {
        while stand.server.requests().last().unwrap().connection == 1 {
            assert_eq!(get(&client).await, StatusCode::OK);
        }
    })
    .await;
    let first = plugin.pids()[0];
    tokio::task::spawn_blocking(move || wait_for_end(first)).await.unwrap();
    assert_eq!(get(&client).await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}
