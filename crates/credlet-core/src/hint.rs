use std::sync::Mutex;
use std::time::Duration;

/// Shows something at most so many times in a window of time, so that a loop does not fill a log with it.
///
/// The window starts with the first showing, and anew with the first one after its end.
#[derive(Debug)]
pub(crate) struct Seldom {
    at_most: u32,
    window: Duration,
    shown: Mutex<(Option<Duration>, u32)>,
}

impl Seldom {
    pub(crate) fn new(at_most: u32, window: Duration) -> Self {
        Self { at_most, window, shown: Mutex::default() }
    }

    /// Whether to show it once more at `now`.
    pub(crate) fn once_more(&self, now: Duration) -> bool {
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match *shown {
            (Some(start), count) if now.saturating_sub(start) < self.window => {
                *shown = (Some(start), count.saturating_add(1));
                count < self.at_most
            }
            _ => {
                *shown = (Some(now), 1);
                self.at_most > 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_in_ten_calls(window: u64, seconds_per_call: u64) -> usize {
        let seldom = Seldom::new(2, Duration::from_secs(window));
        (0..10).filter(|call| seldom.once_more(Duration::from_secs(call * seconds_per_call))).count()
    }

    #[test]
    fn a_hint_is_shown_as_often_as_client_go_shows_it() {
        assert_eq!(shown_in_ten_calls(1, 0), 2);
        assert_eq!(shown_in_ten_calls(5, 1), 4);
    }
}
