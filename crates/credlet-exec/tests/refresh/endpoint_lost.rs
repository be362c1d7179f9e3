//! `RefreshingCache::reestablish`.

use super::*;

async fn reestablish(cache: &RefreshingCache<ScriptedSource>, generation: u64) -> Result<u64, Arc<String>> {
    cache.reestablish(generation).await.map(|entry| entry.generation())
}

#[tokio::test]
async fn one_fetch_reestablishes_for_all_callers() {
    let (cache, _clock) = cache([Step::token("a")]);
    let first = cache.get().await.unwrap().generation();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { reestablish(&cache, first).await.unwrap() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), first + 1);
    }
    assert_eq!(cache.source().runs(), 2);
    assert_eq!(cache.source().last_reason(), FetchReason::EndpointLost);
    // A late caller with the old generation receives the new one.
    assert_eq!(reestablish(&cache, first).await.unwrap(), first + 1);
    assert_eq!(cache.source().runs(), 2);
}

#[tokio::test]
async fn repeated_loss_increases_the_backoff() {
    let (cache, clock) = cache([Step::token("a")]);
    let mut generation = cache.get().await.unwrap().generation();
    for delay in [0, 1, 2, 4, 8, 16, 30, 30] {
        let waiting = tokio::spawn({
            let cache = cache.clone();
            async move { reestablish(&cache, generation).await }
        });
        settle().await;
        if delay > 0 {
            assert!(!waiting.is_finished(), "{delay}");
            clock.advance(s(delay) - Duration::from_millis(1));
            settle().await;
            assert!(!waiting.is_finished(), "{delay}");
            clock.advance(Duration::from_millis(1));
        }
        generation = waiting.await.unwrap().unwrap();
    }
    // An endpoint that was healthy for a minute resets the backoff.
    clock.advance(s(60));
    assert!(reestablish(&cache, generation).await.is_ok());
    assert_eq!(cache.source().runs(), 10);
}

#[tokio::test]
async fn failed_reestablish_uses_the_failure_backoff() {
    let (cache, clock) = cache([Step::token("a"), Step::failure("no"), Step::failure("still no"), Step::token("b")]);
    let first = cache.get().await.unwrap().generation();
    assert_eq!(*reestablish(&cache, first).await.unwrap_err(), "no");
    assert_eq!(*reestablish(&cache, first).await.unwrap_err(), "no");
    clock.advance(s(1));
    assert_eq!(*reestablish(&cache, first).await.unwrap_err(), "still no");
    clock.advance(s(2));
    assert_eq!(reestablish(&cache, first).await.unwrap(), first + 1);
    assert_eq!(cache.source().runs(), 4);
}
