//! `RefreshingCache` with a scripted source and a manual clock.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod endpoint_lost;
mod scripted_source;

use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::FailedResponse;
use credlet_exec::{Clock as _, FetchReason, ManualClock, RefreshPolicy, RefreshingCache};

use self::scripted_source::{ScriptedSource, Step, settle};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn unauthorized() -> FailedResponse {
    FailedResponse { code: 401, ..FailedResponse::default() }
}

/// A cache with a source that performs `steps` in order and repeats the last one.
fn cache(steps: impl IntoIterator<Item = Step>) -> (RefreshingCache<ScriptedSource>, ManualClock) {
    let clock = ManualClock::new("2030-01-02T03:04:05Z".parse().unwrap());
    let policy = {
        let mut policy = RefreshPolicy::default();
        policy.jitter = 0.0;
        policy
    };
    (RefreshingCache::new(ScriptedSource::new(steps, clock.clone()), Arc::new(clock.clone()), policy), clock)
}

/// Calls `get` from 64 concurrent tasks.
async fn get_concurrently(cache: &RefreshingCache<ScriptedSource>) -> Vec<Result<String, Arc<String>>> {
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.get().await.map(|entry| entry.value().clone()) })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

async fn token(cache: &RefreshingCache<ScriptedSource>) -> String {
    cache.get().await.unwrap().value().clone()
}

#[tokio::test]
async fn creating_a_cache_fetches_nothing() {
    let (caches, _clock): (Vec<_>, Vec<_>) = (0..10).map(|_| cache([Step::token("a")])).unzip();
    settle().await;
    assert_eq!(caches.iter().map(|cache| cache.source().runs()).sum::<usize>(), 0);
    assert!(caches.iter().all(|cache| cache.fresh().is_none()));
}

#[tokio::test]
async fn concurrent_callers_share_one_fetch() {
    let (cache, _clock) = cache([Step::token("a").expires_in(s(3600))]);
    let results = get_concurrently(&cache).await;
    assert!(results.iter().all(|result| result.as_deref() == Ok("a")));
    assert_eq!(cache.source().runs(), 1);
}

#[tokio::test]
async fn short_lived_values_are_cached() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(45)), Step::token("b").expires_in(s(45))]);
    get_concurrently(&cache).await;
    clock.advance(s(44));
    get_concurrently(&cache).await;
    assert_eq!(cache.source().runs(), 1);
}

#[tokio::test]
async fn value_is_valid_until_its_expiry() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(100)), Step::token("b").expires_in(s(100))]);
    cache.source().forbid_prefetch();
    assert_eq!(token(&cache).await, "a");
    clock.advance(s(100));
    assert_eq!(token(&cache).await, "a");
    clock.advance(Duration::from_nanos(1));
    assert_eq!(token(&cache).await, "b");
}

#[tokio::test]
async fn failure_is_shared_and_backs_off() {
    let (cache, clock) = cache([Step::failure("no"), Step::failure("still no"), Step::token("a")]);
    let results = get_concurrently(&cache).await;
    assert_eq!(cache.source().runs(), 1);
    let first = results[0].as_ref().unwrap_err();
    assert!(results.iter().all(|result| Arc::ptr_eq(result.as_ref().unwrap_err(), first)));

    // The backoff is one second, then two.
    clock.advance(Duration::from_millis(999));
    assert_eq!(**cache.get().await.unwrap_err(), *"no");
    assert_eq!(cache.source().runs(), 1);
    clock.advance(Duration::from_millis(1));
    assert_eq!(**cache.get().await.unwrap_err(), *"still no");
    clock.advance(Duration::from_millis(1999));
    assert!(cache.get().await.is_err());
    assert_eq!(cache.source().runs(), 2);
    clock.advance(Duration::from_millis(1));
    assert_eq!(token(&cache).await, "a");

    assert_eq!(cache.source().runs(), 3);
}

#[tokio::test]
async fn expired_on_arrival_is_served_for_min_interval() {
    let (cache, clock) = cache([Step::token("a").expired_since(s(60)), Step::token("b").expired_since(s(60))]);
    let results = get_concurrently(&cache).await;
    assert!(results.iter().all(|result| result.as_deref() == Ok("a")));
    clock.advance(s(9));
    assert_eq!(token(&cache).await, "a");
    assert_eq!(cache.source().runs(), 1);
    clock.advance(s(2));
    assert_eq!(token(&cache).await, "b");
    assert_eq!(cache.source().runs(), 2);
}

#[tokio::test]
async fn refreshed_value_may_never_expire() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(10)), Step::token("b")]);
    assert_eq!(token(&cache).await, "a");
    clock.advance(s(11));
    get_concurrently(&cache).await;
    clock.advance(s(1_000_000));
    assert_eq!(token(&cache).await, "b");
    assert_eq!(cache.source().runs(), 2);
}

#[tokio::test]
async fn cancelled_callers_do_not_restart_the_fetch() {
    let (cache, _clock) = cache([Step::token("a").blocked()]);
    for _ in 0..10 {
        let timed_out = tokio::time::timeout(Duration::ZERO, cache.get()).await;
        assert!(timed_out.is_err());
    }
    let waiting = tokio::spawn({
        let cache = cache.clone();
        async move { token(&cache).await }
    });
    settle().await;
    cache.source().release();
    assert_eq!(waiting.await.unwrap(), "a");
    assert_eq!(cache.source().runs(), 1);
}

#[tokio::test]
async fn serves_value_while_refreshing() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(3600)), Step::token("b").expires_in(s(3600)).blocked()]);
    assert_eq!(token(&cache).await, "a");
    // The refresh lead is 1 % of the lifetime: 36 s.
    clock.advance(s(3600 - 35));
    for _ in 0..64 {
        assert_eq!(token(&cache).await, "a");
    }
    settle().await;
    assert_eq!(cache.source().runs(), 2);
    assert_eq!(cache.source().last_reason(), FetchReason::Refresh);
    cache.source().release();
    settle().await;
    assert_eq!(token(&cache).await, "b");
    assert_eq!(cache.source().runs(), 2);
}

#[tokio::test]
async fn timer_refreshes_value_in_use() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(3600)), Step::token("b").expires_in(s(3600))]);
    assert_eq!(token(&cache).await, "a");
    assert!(cache.fresh().is_some());
    clock.advance(s(3570));
    settle().await;
    assert_eq!(cache.source().runs(), 2);
    assert_eq!(cache.fresh().unwrap().value(), "b");
}

#[tokio::test]
async fn unused_value_is_not_refreshed() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(3600)), Step::token("b").expires_in(s(3600))]);
    assert_eq!(token(&cache).await, "a");
    assert!(cache.fresh().is_some());
    for _ in 0..5 {
        clock.advance(s(3590));
        settle().await;
    }
    // The first value was used and is refreshed; the second was not used.
    assert_eq!(cache.source().runs(), 2);
}

#[tokio::test]
async fn interactive_source_is_not_prefetched() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(3600)), Step::token("b").expires_in(s(3600))]);
    cache.source().forbid_prefetch();
    assert_eq!(token(&cache).await, "a");
    clock.advance(s(3599));
    assert_eq!(token(&cache).await, "a");
    settle().await;
    assert_eq!(cache.source().runs(), 1);
}

#[tokio::test]
async fn failed_refresh_keeps_value_until_expiry() {
    let (cache, clock) =
        cache([Step::token("a").expires_in(s(3600)), Step::failure("no"), Step::token("b").expires_in(s(3600))]);
    assert_eq!(token(&cache).await, "a");
    clock.advance(s(3570));
    assert_eq!(token(&cache).await, "a");
    settle().await;
    assert_eq!(cache.source().runs(), 2);
    // During backoff the value is served and nothing is fetched.
    assert_eq!(token(&cache).await, "a");
    settle().await;
    assert_eq!(cache.source().runs(), 2);
    clock.advance(s(2));
    assert_eq!(token(&cache).await, "a");
    settle().await;
    assert_eq!(token(&cache).await, "b");
}

#[tokio::test]
async fn unchanged_refresh_is_not_repeated_at_once() {
    let (cache, clock) = cache([Step::token("a").expires_at("2030-01-02T04:04:05Z")]);
    assert_eq!(token(&cache).await, "a");
    clock.advance(s(3565));
    for _ in 0..64 {
        assert_eq!(token(&cache).await, "a");
        settle().await;
    }
    assert_eq!(cache.source().runs(), 2);
    // The next refresh is due at 99 % of the remaining 35 s.
    clock.advance(s(34));
    assert_eq!(token(&cache).await, "a");
    settle().await;
    assert_eq!(cache.source().runs(), 2);
    clock.advance(Duration::from_millis(900));
    assert_eq!(token(&cache).await, "a");
    settle().await;
    assert_eq!(cache.source().runs(), 3);
}

#[tokio::test]
async fn rejected_holders_share_one_fetch() {
    let (cache, _clock) = cache([Step::token("a"), Step::token("b")]);
    let held = cache.get().await.unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (cache, held) = (cache.clone(), Arc::clone(&held));
            tokio::spawn(async move { cache.replace(&held, unauthorized()).await.unwrap().unwrap().value().clone() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), "b");
    }
    assert_eq!(cache.source().runs(), 2);
    assert_eq!(cache.source().last_reason(), FetchReason::Unauthorized(unauthorized()));
    // A late caller with the old value receives the new one without a fetch.
    assert_eq!(cache.replace(&held, unauthorized()).await.unwrap().unwrap().value(), "b");
    assert_eq!(cache.source().runs(), 2);
}

#[tokio::test]
async fn rejected_value_returned_again_causes_cooldown() {
    let (cache, clock) = cache([Step::token("a")]);
    let held = cache.get().await.unwrap();
    for _ in 0..10 {
        assert!(cache.replace(&held, unauthorized()).await.unwrap().is_none());
    }
    assert_eq!(cache.source().runs(), 2);
    assert_eq!(cache.get().await.unwrap().generation(), held.generation());
    clock.advance(s(10));
    assert!(cache.replace(&held, unauthorized()).await.unwrap().is_none());
    assert_eq!(cache.source().runs(), 3);
}

#[tokio::test]
async fn rejecting_server_does_not_cause_a_fetch_per_request() {
    let (cache, clock) = cache([]);
    for _ in 0..20 {
        let held = cache.get().await.unwrap();
        let _ = cache.replace(&held, unauthorized()).await;
    }
    // One fetch for the first value and one for its replacement, which was rejected as well.
    assert_eq!(cache.source().runs(), 2);
    clock.advance(s(10));
    let held = cache.get().await.unwrap();
    assert!(cache.replace(&held, unauthorized()).await.unwrap().is_some());
    assert_eq!(cache.source().runs(), 3);
}

#[tokio::test]
async fn accepted_replacement_is_replaced_when_rejected() {
    let (cache, _clock) = cache([]);
    for round in 1..=5 {
        let held = cache.get().await.unwrap();
        held.mark_accepted();
        assert!(cache.replace(&held, unauthorized()).await.unwrap().is_some());
        assert_eq!(cache.source().runs(), round + 1);
    }
}

#[tokio::test]
async fn failed_replacement_keeps_value_and_backs_off() {
    let (cache, clock) = cache([Step::token("a"), Step::failure("no"), Step::token("b")]);
    let held = cache.get().await.unwrap();
    for _ in 0..10 {
        assert_eq!(**cache.replace(&held, unauthorized()).await.unwrap_err(), *"no");
    }
    assert_eq!(cache.source().runs(), 2);
    assert_eq!(token(&cache).await, "a");
    clock.advance(s(1));
    assert_eq!(cache.replace(&held, unauthorized()).await.unwrap().unwrap().value(), "b");
}

#[tokio::test]
async fn generation_changes_with_the_value() {
    let (cache, clock) = cache([
        Step::token("a").expires_in(s(10)),
        Step::token("a").expires_in(s(10)),
        Step::token("b").expires_in(s(10)),
    ]);
    let first = cache.get().await.unwrap();
    clock.advance(s(11));
    let second = cache.get().await.unwrap();
    clock.advance(s(11));
    let third = cache.get().await.unwrap();
    assert_eq!(first.generation(), second.generation());
    assert_ne!(second.generation(), third.generation());
    assert!(second.expires() > first.expires());
}

#[tokio::test]
async fn setting_the_clock_back_does_not_extend_lifetime() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(100)), Step::token("b").expires_in(s(100))]);
    cache.source().forbid_prefetch();
    assert_eq!(token(&cache).await, "a");
    clock.set(clock.now() - s(7200));
    clock.advance(s(99));
    assert_eq!(token(&cache).await, "a");
    clock.advance(s(2));
    assert_eq!(token(&cache).await, "b");
    assert_eq!(cache.source().runs(), 2);
}

#[tokio::test]
async fn setting_the_clock_forward_expires_value() {
    let (cache, clock) = cache([Step::token("a").expires_in(s(100)), Step::token("b").expires_in(s(100))]);
    assert_eq!(token(&cache).await, "a");
    // As after a suspend, during which the monotonic clock stopped.
    clock.set(clock.now() + s(7200));
    assert_eq!(token(&cache).await, "b");
}

#[tokio::test]
async fn invalidate_clears_value_and_backoff() {
    let (cache, _clock) = cache([Step::token("a"), Step::failure("no"), Step::token("b")]);
    assert_eq!(token(&cache).await, "a");
    cache.invalidate();
    assert!(cache.get().await.is_err());
    cache.invalidate();
    assert_eq!(token(&cache).await, "b");
}

#[tokio::test]
async fn dropping_the_last_handle_cancels_the_fetch() {
    let (cache, _clock) = cache([Step::token("a").blocked()]);
    let source = cache.source().clone();
    let timed_out = tokio::time::timeout(Duration::ZERO, cache.get()).await;
    assert!(timed_out.is_err());
    settle().await;
    assert_eq!(source.in_flight(), 1);
    drop(cache);
    settle().await;
    assert_eq!(source.in_flight(), 0);
}

#[test]
fn runtime_shutdown_releases_waiting_callers() {
    let (cache, _clock) = cache([Step::token("a").blocked(), Step::token("b")]);
    let first = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    first.block_on(async {
        let _ = tokio::time::timeout(Duration::from_millis(1), cache.get()).await;
    });
    let second = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let waiting = std::thread::spawn({
        let cache = cache.clone();
        move || second.block_on(cache.get()).map(|entry| entry.value().clone())
    });
    while cache.source().runs() == 0 {
        std::thread::yield_now();
    }
    drop(first);
    // The call either waited for the cancelled fetch, or started its own later.
    match waiting.join().unwrap() {
        Ok(token) => assert_eq!(token, "b"),
        Err(error) => assert_eq!(*error, "cancelled"),
    }
    let third = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(third.block_on(token(&cache)), "b");
}

#[tokio::test]
async fn panicking_source_releases_waiting_callers() {
    let (cache, _clock) = cache([Step::Panic, Step::token("a")]);
    let results = get_concurrently(&cache).await;
    assert!(results.iter().all(|result| result.is_err()));
    assert_eq!(token(&cache).await, "a");
}
