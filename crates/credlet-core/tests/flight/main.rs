//! The state machine in the middle, with a scripted source and a clock that stands still.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod gone;
mod script;

use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::Response;
use credlet_core::{Clock as _, Flight, ManualClock, Patience, Why};

use self::script::{Answer, Script, settle};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn refusal() -> Response {
    Response { code: 401, ..Response::default() }
}

/// A flight whose source answers in this order; the last answer is repeated.
fn flight(answers: impl IntoIterator<Item = Answer>) -> (Flight<Script>, ManualClock) {
    let clock = ManualClock::new("2030-01-02T03:04:05Z".parse().unwrap());
    let patience = {
        let mut patience = Patience::default();
        patience.jitter = 0.0;
        patience
    };
    (Flight::new(Script::new(answers, clock.clone()), Arc::new(clock.clone()), patience), clock)
}

/// All at once, as 64 requests would be.
async fn sixty_four_at_once(flight: &Flight<Script>) -> Vec<Result<String, Arc<String>>> {
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let flight = flight.clone();
            tokio::spawn(async move { flight.get().await.map(|entry| entry.value().clone()) })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

async fn token(flight: &Flight<Script>) -> String {
    flight.get().await.unwrap().value().clone()
}

#[tokio::test]
async fn building_a_flight_runs_nothing() {
    let (flights, _clock): (Vec<_>, Vec<_>) = (0..10).map(|_| flight([Answer::token("a")])).unzip();
    settle().await;
    assert_eq!(flights.iter().map(|flight| flight.source().runs()).sum::<usize>(), 0);
    assert!(flights.iter().all(|flight| flight.fresh().is_none()));
}

#[tokio::test]
async fn sixty_four_cold_callers_share_one_run() {
    let (flight, _clock) = flight([Answer::token("a").living(s(3600))]);
    let results = sixty_four_at_once(&flight).await;
    assert!(results.iter().all(|result| result.as_deref() == Ok("a")));
    assert_eq!(flight.source().runs(), 1);
}

#[tokio::test]
async fn short_lived_tokens_are_not_fetched_for_every_caller() {
    let (flight, clock) = flight([Answer::token("a").living(s(45)), Answer::token("b").living(s(45))]);
    sixty_four_at_once(&flight).await;
    clock.advance(s(44));
    sixty_four_at_once(&flight).await;
    assert_eq!(flight.source().runs(), 1);
}

#[tokio::test]
async fn a_value_is_good_until_its_expiry_has_passed() {
    let (flight, clock) = flight([Answer::token("a").living(s(100)), Answer::token("b").living(s(100))]);
    flight.source().never_ahead();
    assert_eq!(token(&flight).await, "a");
    clock.advance(s(100));
    assert_eq!(token(&flight).await, "a");
    clock.advance(Duration::from_nanos(1));
    assert_eq!(token(&flight).await, "b");
}

#[tokio::test]
async fn a_failure_is_shared_by_all_who_waited_and_then_there_is_patience() {
    let (flight, clock) = flight([Answer::failure("no"), Answer::failure("still no"), Answer::token("a")]);
    let results = sixty_four_at_once(&flight).await;
    assert_eq!(flight.source().runs(), 1);
    let first = results[0].as_ref().unwrap_err();
    assert!(results.iter().all(|result| Arc::ptr_eq(result.as_ref().unwrap_err(), first)));

    // The pause is one second, then two.
    clock.advance(Duration::from_millis(999));
    assert_eq!(**flight.get().await.unwrap_err(), *"no");
    assert_eq!(flight.source().runs(), 1);
    clock.advance(Duration::from_millis(1));
    assert_eq!(**flight.get().await.unwrap_err(), *"still no");
    clock.advance(Duration::from_millis(1999));
    assert!(flight.get().await.is_err());
    assert_eq!(flight.source().runs(), 2);
    clock.advance(Duration::from_millis(1));
    assert_eq!(token(&flight).await, "a");

    // A success ends it: the next failure is a first one again.
    assert_eq!(flight.source().runs(), 3);
}

#[tokio::test]
async fn an_answer_that_has_expired_already_is_used_once_for_all_and_then_left_alone_for_a_while() {
    let (flight, clock) = flight([Answer::token("a").expired_for(s(60)), Answer::token("b").expired_for(s(60))]);
    let results = sixty_four_at_once(&flight).await;
    assert!(results.iter().all(|result| result.as_deref() == Ok("a")));
    clock.advance(s(9));
    assert_eq!(token(&flight).await, "a");
    assert_eq!(flight.source().runs(), 1);
    clock.advance(s(2));
    assert_eq!(token(&flight).await, "b");
    assert_eq!(flight.source().runs(), 2);
}

#[tokio::test]
async fn a_renewal_without_expiry_is_as_good_as_any() {
    let (flight, clock) = flight([Answer::token("a").living(s(10)), Answer::token("b")]);
    assert_eq!(token(&flight).await, "a");
    clock.advance(s(11));
    sixty_four_at_once(&flight).await;
    clock.advance(s(1_000_000));
    assert_eq!(token(&flight).await, "b");
    assert_eq!(flight.source().runs(), 2);
}

#[tokio::test]
async fn callers_who_give_up_do_not_restart_the_run() {
    let (flight, _clock) = flight([Answer::token("a").at_gate()]);
    for _ in 0..10 {
        let given_up = tokio::time::timeout(Duration::ZERO, flight.get()).await;
        assert!(given_up.is_err());
    }
    let patient = tokio::spawn({
        let flight = flight.clone();
        async move { token(&flight).await }
    });
    settle().await;
    flight.source().open_gate();
    assert_eq!(patient.await.unwrap(), "a");
    assert_eq!(flight.source().runs(), 1);
}

#[tokio::test]
async fn a_value_about_to_expire_is_served_and_renewed_behind_the_callers_back() {
    let (flight, clock) = flight([Answer::token("a").living(s(3600)), Answer::token("b").living(s(3600)).at_gate()]);
    assert_eq!(token(&flight).await, "a");
    // A hundredth of the life is 36 s.
    clock.advance(s(3600 - 35));
    for _ in 0..64 {
        assert_eq!(token(&flight).await, "a");
    }
    settle().await;
    assert_eq!(flight.source().runs(), 2);
    assert_eq!(flight.source().last_why(), Why::Ahead);
    flight.source().open_gate();
    settle().await;
    assert_eq!(token(&flight).await, "b");
    assert_eq!(flight.source().runs(), 2);
}

#[tokio::test]
async fn a_value_in_use_is_renewed_in_time_even_if_nobody_asks_just_then() {
    let (flight, clock) = flight([Answer::token("a").living(s(3600)), Answer::token("b").living(s(3600))]);
    assert_eq!(token(&flight).await, "a");
    assert!(flight.fresh().is_some());
    clock.advance(s(3570));
    settle().await;
    assert_eq!(flight.source().runs(), 2);
    assert_eq!(flight.fresh().unwrap().value(), "b");
}

#[tokio::test]
async fn a_value_nobody_uses_any_more_is_left_to_expire() {
    let (flight, clock) = flight([Answer::token("a").living(s(3600)), Answer::token("b").living(s(3600))]);
    assert_eq!(token(&flight).await, "a");
    assert!(flight.fresh().is_some());
    for _ in 0..5 {
        clock.advance(s(3590));
        settle().await;
    }
    // Once ahead for the one that was used; nobody has used the second.
    assert_eq!(flight.source().runs(), 2);
}

#[tokio::test]
async fn a_person_is_not_asked_behind_their_back() {
    let (flight, clock) = flight([Answer::token("a").living(s(3600)), Answer::token("b").living(s(3600))]);
    flight.source().never_ahead();
    assert_eq!(token(&flight).await, "a");
    clock.advance(s(3599));
    assert_eq!(token(&flight).await, "a");
    settle().await;
    assert_eq!(flight.source().runs(), 1);
}

#[tokio::test]
async fn a_renewal_that_fails_leaves_the_value_until_it_expires() {
    let (flight, clock) =
        flight([Answer::token("a").living(s(3600)), Answer::failure("no"), Answer::token("b").living(s(3600))]);
    assert_eq!(token(&flight).await, "a");
    clock.advance(s(3570));
    assert_eq!(token(&flight).await, "a");
    settle().await;
    assert_eq!(flight.source().runs(), 2);
    // Backing off: served, and nobody asks the source.
    assert_eq!(token(&flight).await, "a");
    settle().await;
    assert_eq!(flight.source().runs(), 2);
    clock.advance(s(2));
    assert_eq!(token(&flight).await, "a");
    settle().await;
    assert_eq!(token(&flight).await, "b");
}

#[tokio::test]
async fn a_renewal_that_brings_nothing_newer_is_not_repeated_at_once() {
    let (flight, clock) = flight([Answer::token("a").until("2030-01-02T04:04:05Z")]);
    assert_eq!(token(&flight).await, "a");
    clock.advance(s(3565));
    for _ in 0..64 {
        assert_eq!(token(&flight).await, "a");
        settle().await;
    }
    assert_eq!(flight.source().runs(), 2);
    // Of the 35 s that were left, a hundredth before the end is the next time to ask.
    clock.advance(s(34));
    assert_eq!(token(&flight).await, "a");
    settle().await;
    assert_eq!(flight.source().runs(), 2);
    clock.advance(Duration::from_millis(900));
    assert_eq!(token(&flight).await, "a");
    settle().await;
    assert_eq!(flight.source().runs(), 3);
}

#[tokio::test]
async fn sixty_four_refused_holders_cause_one_run_and_all_get_the_new_value() {
    let (flight, _clock) = flight([Answer::token("a"), Answer::token("b")]);
    let held = flight.get().await.unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (flight, held) = (flight.clone(), Arc::clone(&held));
            tokio::spawn(async move { flight.replace(&held, refusal()).await.unwrap().unwrap().value().clone() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), "b");
    }
    assert_eq!(flight.source().runs(), 2);
    assert_eq!(flight.source().last_why(), Why::Refused(refusal()));
    // A straggler that still holds the first one gets the second without a run.
    assert_eq!(flight.replace(&held, refusal()).await.unwrap().unwrap().value(), "b");
    assert_eq!(flight.source().runs(), 2);
}

#[tokio::test]
async fn a_source_that_gives_the_refused_value_again_is_left_alone_for_a_while() {
    let (flight, clock) = flight([Answer::token("a")]);
    let held = flight.get().await.unwrap();
    for _ in 0..10 {
        assert!(flight.replace(&held, refusal()).await.unwrap().is_none());
    }
    assert_eq!(flight.source().runs(), 2);
    assert_eq!(flight.get().await.unwrap().generation(), held.generation());
    clock.advance(s(10));
    assert!(flight.replace(&held, refusal()).await.unwrap().is_none());
    assert_eq!(flight.source().runs(), 3);
}

#[tokio::test]
async fn a_server_that_refuses_everything_does_not_make_the_source_run_for_every_request() {
    let (flight, clock) = flight([]);
    for _ in 0..20 {
        let held = flight.get().await.unwrap();
        let _ = flight.replace(&held, refusal()).await;
    }
    // One for the first value and one for its replacement, which was refused as well.
    assert_eq!(flight.source().runs(), 2);
    clock.advance(s(10));
    let held = flight.get().await.unwrap();
    assert!(flight.replace(&held, refusal()).await.unwrap().is_some());
    assert_eq!(flight.source().runs(), 3);
}

#[tokio::test]
async fn a_replacement_that_was_accepted_is_replaced_at_once_when_it_is_refused_later() {
    let (flight, _clock) = flight([]);
    for round in 1..=5 {
        let held = flight.get().await.unwrap();
        held.accept();
        assert!(flight.replace(&held, refusal()).await.unwrap().is_some());
        assert_eq!(flight.source().runs(), round + 1);
    }
}

#[tokio::test]
async fn a_replacement_that_fails_leaves_the_value_and_backs_off() {
    let (flight, clock) = flight([Answer::token("a"), Answer::failure("no"), Answer::token("b")]);
    let held = flight.get().await.unwrap();
    for _ in 0..10 {
        assert_eq!(**flight.replace(&held, refusal()).await.unwrap_err(), *"no");
    }
    assert_eq!(flight.source().runs(), 2);
    assert_eq!(token(&flight).await, "a");
    clock.advance(s(1));
    assert_eq!(flight.replace(&held, refusal()).await.unwrap().unwrap().value(), "b");
}

#[tokio::test]
async fn an_equal_value_keeps_its_generation_and_another_one_changes_it() {
    let (flight, clock) =
        flight([Answer::token("a").living(s(10)), Answer::token("a").living(s(10)), Answer::token("b").living(s(10))]);
    let first = flight.get().await.unwrap();
    clock.advance(s(11));
    let second = flight.get().await.unwrap();
    clock.advance(s(11));
    let third = flight.get().await.unwrap();
    assert_eq!(first.generation(), second.generation());
    assert_ne!(second.generation(), third.generation());
    assert!(second.expires() > first.expires());
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_lengthen_a_life() {
    let (flight, clock) = flight([Answer::token("a").living(s(100)), Answer::token("b").living(s(100))]);
    flight.source().never_ahead();
    assert_eq!(token(&flight).await, "a");
    clock.set(clock.now() - s(7200));
    clock.advance(s(99));
    assert_eq!(token(&flight).await, "a");
    clock.advance(s(2));
    assert_eq!(token(&flight).await, "b");
    assert_eq!(flight.source().runs(), 2);
}

#[tokio::test]
async fn a_clock_that_is_set_forward_ends_a_life() {
    let (flight, clock) = flight([Answer::token("a").living(s(100)), Answer::token("b").living(s(100))]);
    assert_eq!(token(&flight).await, "a");
    // As after a night in which a laptop slept: its monotonic time stood still.
    clock.set(clock.now() + s(7200));
    assert_eq!(token(&flight).await, "b");
}

#[tokio::test]
async fn forgetting_starts_over() {
    let (flight, _clock) = flight([Answer::token("a"), Answer::failure("no"), Answer::token("b")]);
    assert_eq!(token(&flight).await, "a");
    flight.forget();
    assert!(flight.get().await.is_err());
    flight.forget();
    assert_eq!(token(&flight).await, "b");
}

#[tokio::test]
async fn when_the_last_handle_is_dropped_the_run_is_ended() {
    let (flight, _clock) = flight([Answer::token("a").at_gate()]);
    let source = flight.source().clone();
    let given_up = tokio::time::timeout(Duration::ZERO, flight.get()).await;
    assert!(given_up.is_err());
    settle().await;
    assert_eq!(source.under_way(), 1);
    drop(flight);
    settle().await;
    assert_eq!(source.under_way(), 0);
}

#[test]
fn a_runtime_that_is_shut_down_half_way_leaves_nobody_waiting() {
    let (flight, _clock) = flight([Answer::token("a").at_gate(), Answer::token("b")]);
    let first = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    first.block_on(async {
        let _ = tokio::time::timeout(Duration::from_millis(1), flight.get()).await;
    });
    let second = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let waiting = std::thread::spawn({
        let flight = flight.clone();
        move || second.block_on(flight.get()).map(|entry| entry.value().clone())
    });
    while flight.source().runs() == 0 {
        std::thread::yield_now();
    }
    drop(first);
    // Either it was waiting and was told, or it came later and ran its own.
    match waiting.join().unwrap() {
        Ok(token) => assert_eq!(token, "b"),
        Err(error) => assert_eq!(*error, "abandoned"),
    }
    let third = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(third.block_on(token(&flight)), "b");
}

#[tokio::test]
async fn a_source_that_panics_leaves_nobody_waiting() {
    let (flight, _clock) = flight([Answer::Panic, Answer::token("a")]);
    let results = sixty_four_at_once(&flight).await;
    assert!(results.iter().all(|result| result.is_err()));
    assert_eq!(token(&flight).await, "a");
}
