//! What a value leads to is not there any more.

use super::*;

async fn brought_back(flight: &Flight<Script>, gone: u64) -> Result<u64, Arc<String>> {
    flight.bring_back(gone).await.map(|entry| entry.generation())
}

#[tokio::test]
async fn what_is_gone_is_brought_back_by_one_run_for_all_who_say_so_even_if_it_looks_the_same() {
    let (flight, _clock) = flight([Answer::token("a")]);
    let first = flight.get().await.unwrap().generation();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let flight = flight.clone();
            tokio::spawn(async move { brought_back(&flight, first).await.unwrap() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), first + 1);
    }
    assert_eq!(flight.source().runs(), 2);
    assert_eq!(flight.source().last_why(), Why::Gone);
    // Whoever comes late with the old one is given the new one.
    assert_eq!(brought_back(&flight, first).await.unwrap(), first + 1);
    assert_eq!(flight.source().runs(), 2);
}

#[tokio::test]
async fn what_goes_again_and_again_is_brought_back_after_longer_and_longer_pauses() {
    let (flight, clock) = flight([Answer::token("a")]);
    let mut generation = flight.get().await.unwrap().generation();
    for pause in [0, 1, 2, 4, 8, 16, 30, 30] {
        let waiting = tokio::spawn({
            let flight = flight.clone();
            async move { brought_back(&flight, generation).await }
        });
        settle().await;
        if pause > 0 {
            assert!(!waiting.is_finished(), "{pause}");
            clock.advance(s(pause) - Duration::from_millis(1));
            settle().await;
            assert!(!waiting.is_finished(), "{pause}");
            clock.advance(Duration::from_millis(1));
        }
        generation = waiting.await.unwrap().unwrap();
    }
    // A minute of health, and it is as if nothing had been.
    clock.advance(s(60));
    assert!(brought_back(&flight, generation).await.is_ok());
    assert_eq!(flight.source().runs(), 10);
}

#[tokio::test]
async fn when_it_cannot_be_brought_back_the_usual_back_off_is_the_pause() {
    let (flight, clock) =
        flight([Answer::token("a"), Answer::failure("no"), Answer::failure("still no"), Answer::token("b")]);
    let first = flight.get().await.unwrap().generation();
    assert_eq!(*brought_back(&flight, first).await.unwrap_err(), "no");
    assert_eq!(*brought_back(&flight, first).await.unwrap_err(), "no");
    clock.advance(s(1));
    assert_eq!(*brought_back(&flight, first).await.unwrap_err(), "still no");
    clock.advance(s(2));
    assert_eq!(brought_back(&flight, first).await.unwrap(), first + 1);
    assert_eq!(flight.source().runs(), 4);
}
