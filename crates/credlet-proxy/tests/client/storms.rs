//! A proxy that is gone again and again is not started again and again.

use credlet_core::ManualClock;
use credlet_testkit::plugin::Plugin;

use super::*;

#[tokio::test]
async fn a_crowd_at_a_deserted_socket_costs_one_run_and_the_next_one_comes_after_a_pause() {
    let clock = ManualClock::new(SystemClock::new().now());
    let stand = Stand::at(Arc::new(clock.clone()));
    let plugin = Plugin::new().answers_with_proxy(stand.tunnel().url());
    let client = stand.client(&plugin);
    let crowd: Vec<_> = (0..20).map(|_| spawn(&client, Method::POST, "/echo")).collect();
    for request in crowd {
        let error = within(request).await.unwrap().unwrap_err();
        stand.watch.error(&*error);
        assert_eq!(error.to_string(), format!("nobody listens at {}", stand.tunnel().url()));
    }
    assert_eq!(plugin.runs(), 2);
    // Each that tried the door, before the plugin ran again and after.
    let errors =
        stand.metrics.encode().lines().find_map(|line| line.strip_prefix("client_exec_proxy_errors ")?.parse().ok());
    assert!(errors.is_some_and(|errors: u32| errors >= 2), "{}", stand.metrics.encode());

    // The clock stands still, so nothing happens; then it passes the pause.
    let next = spawn(&client, Method::POST, "/echo");
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!next.is_finished());
    assert_eq!(plugin.runs(), 2);
    clock.advance(Duration::from_secs(1));
    assert!(within(next).await.unwrap().is_err());
    assert_eq!(plugin.runs(), 3);

    // The pause has grown: chance makes it shorter than two seconds, but not by half.
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

    // What has lasted is brought back at once.
    clock.advance(Duration::from_secs(60));
    assert!(send(&client, Method::POST, "/echo").await.is_err());
    assert_eq!(plugin.runs(), 5);
    assert_eq!(stand.server.counts().requests, 0);
}

#[tokio::test]
async fn who_waits_for_a_proxy_to_come_back_waits_half_a_minute() {
    let clock = ManualClock::new(SystemClock::new().now());
    let stand = Stand::at(Arc::new(clock.clone()));
    let plugin = Plugin::new().answers_with_proxy(stand.tunnel().url()).on_the_next_run().hangs();
    let client = stand.client(&plugin);
    let request = spawn(&client, Method::GET, "/version");
    within(plugin.has_run(2)).await;
    clock.advance(Duration::from_secs(30));
    let error = within(request).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), format!("nobody listens at {}", stand.tunnel().url()));
}
