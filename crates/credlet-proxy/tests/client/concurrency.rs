//! Backoff for proxies that exit repeatedly.

use credlet_exec::ManualClock;
use credlet_testkit::plugin::TestPlugin;

use super::*;

#[tokio::test]
async fn stale_socket_costs_one_run_for_all() {
    let clock = ManualClock::new(SystemClock::new().now());
    let sandbox = ClientSandbox::at(Arc::new(clock.clone()));
    let plugin = TestPlugin::new().answers_with_proxy(sandbox.tunnel().url());
    let client = sandbox.client(&plugin);
    let crowd: Vec<_> = (0..20).map(|_| spawn(&client, Method::POST, "/echo")).collect();
    for request in crowd {
        let error = within(request).await.unwrap().unwrap_err();
        sandbox.watch.error(&error);
        assert_eq!(error.to_string(), format!("cannot connect to the exec proxy at {}", sandbox.tunnel().url()));
    }
    assert_eq!(plugin.runs(), 2);
    // Connection attempts before and after the plugin ran again.
    let errors =
        sandbox.metrics.encode().lines().find_map(|line| line.strip_prefix("client_exec_proxy_errors ")?.parse().ok());
    assert!(errors.is_some_and(|errors: u32| errors >= 2), "{}", sandbox.metrics.encode());

    // The clock stands still, so nothing happens until it passes the backoff.
    let next = spawn(&client, Method::POST, "/echo");
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!next.is_finished());
    assert_eq!(plugin.runs(), 2);
    clock.advance(Duration::from_secs(1));
    assert!(within(next).await.unwrap().is_err());
    assert_eq!(plugin.runs(), 3);

    // The backoff has grown: jitter makes it shorter than two seconds, by less than half.
    let next = spawn(&client, Method::POST, "/echo");
    for elapsed in [0, 1] {
        clock.advance(Duration::from_secs(elapsed));
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!next.is_finished());
        assert_eq!(plugin.runs(), 3);
    }
    clock.advance(Duration::from_secs(1));
    assert!(within(next).await.unwrap().is_err());
    assert_eq!(plugin.runs(), 4);

    // A proxy that ran for long enough is re-established at once.
    clock.advance(Duration::from_secs(60));
    assert!(send(&client, Method::POST, "/echo").await.is_err());
    assert_eq!(plugin.runs(), 5);
    assert_eq!(sandbox.server.counts().requests, 0);
}

#[tokio::test]
async fn reestablishing_times_out() {
    let clock = ManualClock::new(SystemClock::new().now());
    let sandbox = ClientSandbox::at(Arc::new(clock.clone()));
    let plugin = TestPlugin::new().answers_with_proxy(sandbox.tunnel().url()).on_the_next_run().hangs();
    let client = sandbox.client(&plugin);
    let request = spawn(&client, Method::GET, "/version");
    within(plugin.has_run(2)).await;
    clock.advance(Duration::from_secs(30));
    let error = within(request).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), format!("cannot connect to the exec proxy at {}", sandbox.tunnel().url()));
}
