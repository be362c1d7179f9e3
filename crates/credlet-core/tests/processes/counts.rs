//! The counts table: how often a 100 ms plugin is run for 64 requests at once.

use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::Response;
use credlet_core::{Entry, Error, ExecPlugin, Flight};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;

use crate::flight;

const SLOW: Duration = Duration::from_millis(100);

type Outcome = Result<Arc<Entry<credlet_core::Credential>>, Arc<Error>>;

async fn sixty_four_at_once(flight: &Flight<ExecPlugin>) -> Vec<Outcome> {
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let flight = flight.clone();
            tokio::spawn(async move { flight.get().await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap());
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn building_runs_nothing() {
    let plugin = Plugin::answering("token");
    let flights: Vec<_> = (0..10).map(|_| flight(&plugin)).collect();
    assert!(flights.iter().all(|flight| flight.fresh().is_none()));
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cold_with_a_long_lived_token_once() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let plugin = Plugin::new().sleeps(SLOW).answers(token.expose()).expiring_in(Duration::from_secs(3600));
    for outcome in sixty_four_at_once(&flight(&plugin)).await {
        watch.text(format!("{outcome:?}"));
        assert_eq!(outcome.unwrap().value().token, Some(token.clone()));
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_of_45_seconds_once() {
    let plugin = Plugin::new().sleeps(SLOW).answers("token").expiring_in(Duration::from_secs(45));
    let flight = flight(&plugin);
    for _ in 0..3 {
        assert!(sixty_four_at_once(&flight).await.iter().all(Result::is_ok));
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_that_have_expired_already_once() {
    let plugin = Plugin::new().sleeps(SLOW).answers("token").expired_since(Duration::from_secs(60));
    let flight = flight(&plugin);
    for _ in 0..3 {
        assert!(sixty_four_at_once(&flight).await.iter().all(Result::is_ok));
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_plugin_that_fails_once_and_all_get_that_error() {
    let plugin = Plugin::new().sleeps(SLOW).exits(3);
    let flight = flight(&plugin);
    let outcomes = sixty_four_at_once(&flight).await;
    let first = outcomes[0].as_ref().unwrap_err();
    assert!(outcomes.iter().all(|outcome| Arc::ptr_eq(outcome.as_ref().unwrap_err(), first)));
    assert!(flight.get().await.is_err());
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_renewal_without_expiry_once_more() {
    let plugin = Plugin::new()
        .answers("one")
        .expiring_in(Duration::from_millis(1200))
        .on_the_next_run()
        .sleeps(SLOW)
        .answers("two");
    let flight = flight(&plugin);
    flight.get().await.unwrap();
    plugin.has_run(2).await;
    assert!(sixty_four_at_once(&flight).await.iter().all(Result::is_ok));
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_are_refused_once_for_all() {
    let watch = Watch::new();
    let (one, two) = (watch.secret("first token"), watch.secret("second token"));
    let plugin = Plugin::answering(one.expose()).on_the_next_run().sleeps(SLOW).answers(two.expose());
    let flight = flight(&plugin);
    let held = flight.get().await.unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (flight, held) = (flight.clone(), Arc::clone(&held));
            tokio::spawn(async move { flight.replace(&held, Response { code: 401, ..Response::default() }).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().unwrap().value().token, Some(two.clone()));
    }
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_give_up_leave_the_plugin_running_for_the_others() {
    let plugin = Plugin::new().waits_at("gate").answers("token");
    let flight = flight(&plugin);
    for _ in 0..5 {
        assert!(tokio::time::timeout(Duration::from_millis(20), flight.get()).await.is_err());
    }
    plugin.reached("gate").await;
    plugin.open("gate");
    assert!(flight.get().await.is_ok());
    assert_eq!(plugin.runs(), 1);
}
