//! Proxies that exit between requests, during a request or before the first one.

use std::io::{BufRead as _, BufReader, Write as _};

use bytes::Bytes;
use credlet_exec::ManualClock;
use credlet_testkit::plugin::{TestPlugin, wait_for_end};
use credlet_testkit::server::Fault;
use http_body_util::Full;

use super::*;

#[tokio::test]
async fn stale_socket_reruns_the_plugin() {
    for deserted in [false, true] {
        let sandbox = ClientSandbox::new();
        let tunnel = sandbox.tunnel();
        if deserted {
            // The listener is closed at once, and the file stays.
            drop(std::os::unix::net::UnixListener::bind(tunnel.socket()).unwrap());
            fs::set_permissions(tunnel.socket(), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let plugin = TestPlugin::new()
            .answers_with_proxy(tunnel.url())
            .on_the_next_run()
            .leaves_a_proxy(&tunnel)
            .answers_with_proxy(tunnel.url());
        let client = sandbox.client(&plugin);
        // A body that can be read only once. Nothing was read before there was a proxy.
        let body = RequestBody::stream(Full::new(Bytes::from_static(b"hello")));
        let response = within(client.send(Request::post("/echo").body(body).unwrap())).await.unwrap();
        let body = within(response.into_body().collect()).await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("hello"));
        assert_eq!((plugin.runs(), sandbox.seen("POST")), (2, 1));
    }
}

#[tokio::test]
async fn killed_proxy_is_restarted_by_next_request() {
    let sandbox = ClientSandbox::new();
    let plugin = sandbox.server_plugin();
    let client = sandbox.client(&plugin);
    assert_eq!(status(&client, Method::POST, "/echo").await, StatusCode::OK);
    let pid = plugin.pids()[0];
    kill(pid);
    if fs::exists("/proc/self/stat").unwrap() {
        // The child process is reaped.
        let entry = PathBuf::from(format!("/proc/{pid}"));
        within(async {
            while entry.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
    assert_eq!(status(&client, Method::POST, "/echo").await, StatusCode::OK);
    assert_eq!((plugin.runs(), sandbox.seen("POST")), (2, 2));
}

/// Like a killed process that is still exiting: the kernel accepts connections until the socket is closed.
#[tokio::test]
async fn unresponsive_proxy_gets_no_write_twice() {
    for hears in [true, false] {
        let sandbox = ClientSandbox::new();
        let (deaf, tunnel) =
            (sandbox.tunnel(), TunnelProxy::new(&sandbox.other_dir(), &sandbox.server, &sandbox.ca, &sandbox.identity));
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
        let plugin = TestPlugin::new()
            .answers_with_proxy(deaf.url())
            .on_the_next_run()
            .leaves_a_proxy(&tunnel)
            .answers_with_proxy(tunnel.url());
        let client = sandbox.client(&plugin);
        if hears {
            let error = send(&client, Method::POST, "/echo").await.unwrap_err();
            sandbox.watch.error(&error);
            assert_eq!((plugin.runs(), sandbox.seen("POST")), (1, 0), "{error}");
        }
        assert_eq!(get(&client).await, StatusCode::OK, "{hears}");
        assert_eq!(plugin.runs(), 2);
    }
}

/// The connection was closed without notice, so the first write fails and nothing was sent.
#[tokio::test]
async fn unsent_write_is_retried() {
    let sandbox = ClientSandbox::new();
    let tunnel = sandbox.tunnel();
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
    let plugin = TestPlugin::new().answers_with_proxy(tunnel.url());
    let client = sandbox.client(&plugin);
    for (method, line) in [(Method::GET, "GET"), (Method::POST, "POST"), (Method::DELETE, "DELETE")] {
        assert_eq!(status(&client, method, "/echo").await, StatusCode::OK);
        assert!(hearing.recv().unwrap().starts_with(line));
        close.send(()).unwrap();
        // Without `await`, so no other task of this test runs in between.
        assert_eq!(hearing.recv().unwrap(), "closed");
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test]
async fn killed_proxy_costs_one_run_and_no_read() {
    const EACH: usize = 20;
    for tls in [false, true] {
        let sandbox = ClientSandbox::new();
        let (local, mut tunnel) = (TestCa::named("local"), sandbox.tunnel());
        let identity = local.client("client").issue();
        if tls {
            tunnel = tunnel.with_tls(&local.server().issue(), &local);
        }
        let mut plugin = TestPlugin::new().listens(&tunnel).answers_with_proxy(tunnel.url());
        if tls {
            plugin = plugin.proxy_authority(local.pem()).certificate(identity.cert_pem(), identity.key_pem());
        }
        let plugin = plugin.hangs();
        let client = sandbox.client(&plugin);
        sandbox.server.inject(2 * EACH, Fault::Stall);
        let requests = [Method::GET, Method::POST].map(|method| {
            std::iter::repeat_with(|| spawn(&client, method.clone(), "/echo")).take(EACH).collect::<Vec<_>>()
        });
        within(sandbox.server.wait_for(|counts| counts.requests == 2 * EACH)).await;
        kill(plugin.pids()[0]);
        let [reads, writes] = requests;
        for read in reads {
            assert_eq!(within(read).await.unwrap().unwrap().status(), StatusCode::OK);
        }
        for write in writes {
            sandbox.watch.error(&within(write).await.unwrap().unwrap_err());
        }
        assert_eq!((plugin.runs(), sandbox.seen("GET"), sandbox.seen("POST")), (2, 2 * EACH, EACH), "{tls}");
    }
}

#[tokio::test]
async fn sent_write_is_not_retried() {
    // On a used connection and on a new one.
    for (method, used, goes_through) in [
        (Method::POST, false, false),
        (Method::POST, true, false),
        (Method::DELETE, true, false),
        (Method::GET, false, true),
        (Method::GET, true, true),
        (Method::OPTIONS, false, true),
    ] {
        let sandbox = ClientSandbox::new();
        let plugin = sandbox.server_plugin();
        let client = sandbox.client(&plugin);
        if used {
            assert_eq!(get(&client).await, StatusCode::OK);
        }
        let earlier = sandbox.server.counts().requests;
        sandbox.server.inject(1, Fault::Stall);
        let request = spawn(&client, method.clone(), "/echo");
        within(sandbox.server.wait_for(|counts| counts.requests > earlier)).await;
        kill(plugin.pids()[0]);
        match within(request).await.unwrap() {
            Ok(response) => assert!(goes_through && response.status() == StatusCode::OK, "{method}"),
            Err(error) => {
                sandbox.watch.error(&error);
                assert!(!goes_through, "{method} ({used}): {error}");
            }
        }
        let times = if goes_through { 2 } else { 1 };
        assert_eq!((plugin.runs(), sandbox.server.counts().requests - earlier), (times, times), "{method}");
        // The next request uses another proxy in any case.
        assert_eq!(get(&client).await, StatusCode::OK);
        assert_eq!(plugin.runs(), 2);
    }
}

#[tokio::test]
async fn killed_plugin_is_run_again() {
    let sandbox = ClientSandbox::new();
    let tunnel = sandbox.tunnel();
    let plugin = TestPlugin::new()
        .waits_at("before its answer")
        .on_the_next_run()
        .listens(&tunnel)
        .answers_with_proxy(tunnel.url())
        .dies_by(9)
        .on_the_next_run()
        .listens(&tunnel)
        .answers_with_proxy(tunnel.url())
        .hangs();
    let client = sandbox.client(&plugin);
    let request = spawn(&client, Method::POST, "/echo");
    within(plugin.reached("before its answer")).await;
    kill(plugin.pids()[0]);
    assert_eq!(within(request).await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!((plugin.runs(), sandbox.seen("POST")), (3, 1));
}

#[tokio::test]
async fn always_killed_plugin_is_given_up() {
    for (signal, runs, said) in [(9, 4, "was killed by SIGKILL"), (11, 1, "was killed by SIGSEGV")] {
        let clock = ManualClock::new(SystemClock::new().now());
        let sandbox = ClientSandbox::at(Arc::new(clock.clone()));
        let plugin = TestPlugin::new().dies_by(signal);
        let client = sandbox.client(&plugin);
        let request = spawn(&client, Method::GET, "/version");
        if runs > 1 {
            // The second run starts at once. The clock stands still, so no other follows.
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
        sandbox.watch.error(&error);
        assert!(causes(&error).ends_with(said), "{}", causes(&error));
        assert_eq!(plugin.runs(), runs);
    }
}

#[tokio::test]
async fn unauthorized_reruns_the_plugin_once() {
    let sandbox = ClientSandbox::new();
    let plugin = sandbox.starter();
    let client = sandbox.client(&plugin);
    assert_eq!(get(&client).await, StatusCode::OK);
    sandbox.server.revoke_client("proxied");
    for _ in 0..5 {
        assert_eq!(get(&client).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn failed_restart_reports_plugin_error() {
    let sandbox = ClientSandbox::new();
    let tunnel = sandbox.tunnel();
    let plugin = TestPlugin::new()
        .answers_with_proxy(tunnel.url())
        .on_the_next_run()
        .prints_to(credlet_testkit::plugin::OutputStream::Stderr, "no card in the reader\n")
        .exits(1);
    let error = sandbox.error(&sandbox.client(&plugin)).await;
    assert!(error.starts_with(&format!("failed to replace the exec proxy at {}: ", tunnel.url())));
    assert!(error.ends_with("exited with code 1: no card in the reader"), "{error}");
}

#[tokio::test]
async fn expired_proxy_is_replaced() {
    let sandbox = ClientSandbox::new();
    let (one, two) =
        (sandbox.tunnel(), TunnelProxy::new(&sandbox.other_dir(), &sandbox.server, &sandbox.ca, &sandbox.identity));
    let plugin = TestPlugin::new()
        .listens(&one)
        .answers_with_proxy(one.url())
        .expiring_in(Duration::from_secs(2))
        .hangs()
        .on_the_next_run()
        .listens(&two)
        .answers_with_proxy(two.url())
        .hangs();
    let client = sandbox.client(&plugin);
    assert_eq!(get(&client).await, StatusCode::OK);
    // Refreshed in the background.
    within(plugin.has_run(2)).await;
    within(async {
        while sandbox.server.requests().last().unwrap().connection == 1 {
            assert_eq!(get(&client).await, StatusCode::OK);
        }
    })
    .await;
    let first = plugin.pids()[0];
    tokio::task::spawn_blocking(move || wait_for_end(first)).await.unwrap();
    assert_eq!(get(&client).await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}
