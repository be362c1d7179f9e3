//! Number of runs of a plugin that takes 100 ms, for 64 concurrent requests.

use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::FailedResponse;
use credlet_exec::{CachedValue, Error, ExecPlugin, RefreshingCache};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;

use crate::cache;

const SLOW: Duration = Duration::from_millis(100);

type Outcome = Result<Arc<CachedValue<credlet_exec::Credential>>, Arc<Error>>;

async fn get_concurrently(cache: &RefreshingCache<ExecPlugin>) -> Vec<Outcome> {
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.get().await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap());
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_a_client_runs_nothing() {
    let plugin = TestPlugin::answering("token");
    let caches: Vec<_> = (0..10).map(|_| cache(&plugin)).collect();
    assert!(caches.iter().all(|cache| cache.fresh().is_none()));
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_for_concurrent_cold_callers() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let plugin = TestPlugin::new().sleeps(SLOW).answers(token.expose()).expiring_in(Duration::from_secs(3600));
    for outcome in get_concurrently(&cache(&plugin)).await {
        watch.text(format!("{outcome:?}"));
        assert_eq!(outcome.unwrap().value().token, Some(token.clone()));
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_for_short_lived_tokens() {
    let plugin = TestPlugin::new().sleeps(SLOW).answers("token").expiring_in(Duration::from_secs(45));
    let cache = cache(&plugin);
    for _ in 0..3 {
        assert!(get_concurrently(&cache).await.iter().all(Result::is_ok));
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_for_expired_tokens() {
    let plugin = TestPlugin::new().sleeps(SLOW).answers("token").expired_since(Duration::from_secs(60));
    let cache = cache(&plugin);
    for _ in 0..3 {
        assert!(get_concurrently(&cache).await.iter().all(Result::is_ok));
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_failed_run_is_shared() {
    let plugin = TestPlugin::new().sleeps(SLOW).exits(3);
    let cache = cache(&plugin);
    let outcomes = get_concurrently(&cache).await;
    let first = outcomes[0].as_ref().unwrap_err();
    assert!(outcomes.iter().all(|outcome| Arc::ptr_eq(outcome.as_ref().unwrap_err(), first)));
    assert!(cache.get().await.is_err());
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_more_run_after_expiry() {
    let plugin = TestPlugin::new()
        .answers("one")
        .expiring_in(Duration::from_millis(1200))
        .on_the_next_run()
        .sleeps(SLOW)
        .answers("two");
    let cache = cache(&plugin);
    cache.get().await.unwrap();
    plugin.has_run(2).await;
    assert!(get_concurrently(&cache).await.iter().all(Result::is_ok));
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_for_all_rejected_holders() {
    let watch = LeakCheck::new();
    let (one, two) = (watch.secret("first token"), watch.secret("second token"));
    let plugin = TestPlugin::answering(one.expose()).on_the_next_run().sleeps(SLOW).answers(two.expose());
    let cache = cache(&plugin);
    let held = cache.get().await.unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (cache, held) = (cache.clone(), Arc::clone(&held));
            tokio::spawn(async move {
                cache.replace(&held, FailedResponse { code: 401, ..FailedResponse::default() }).await
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().unwrap().value().token, Some(two.clone()));
    }
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_callers_do_not_kill_the_plugin() {
    let plugin = TestPlugin::new().waits_at("gate").answers("token");
    let cache = cache(&plugin);
    for _ in 0..5 {
        assert!(tokio::time::timeout(Duration::from_millis(20), cache.get()).await.is_err());
    }
    plugin.reached("gate").await;
    plugin.open("gate");
    assert!(cache.get().await.is_ok());
    assert_eq!(plugin.runs(), 1);
}
