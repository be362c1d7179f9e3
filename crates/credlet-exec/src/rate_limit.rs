use std::sync::Mutex;
use std::time::Duration;

/// Allows an action a limited number of times per window. A window starts with the first action after the previous one.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    limit: u32,
    window: Duration,
    /// Start of the window on the monotonic clock, and number of actions in it.
    current: Mutex<(Option<Duration>, u32)>,
}

impl RateLimiter {
    pub(crate) fn new(limit: u32, window: Duration) -> Self {
        Self { limit, window, current: Mutex::default() }
    }

    /// Counts an action at `now` and returns whether it is within the limit.
    pub(crate) fn allow(&self, now: Duration) -> bool {
        let mut current = self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match *current {
            (Some(start), count) if now.saturating_sub(start) < self.window => {
                *current = (Some(start), count.saturating_add(1));
                count < self.limit
            }
            _ => {
                *current = (Some(now), 1);
                self.limit > 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed_of_ten(window: u64, seconds_between: u64) -> usize {
        let limiter = RateLimiter::new(2, Duration::from_secs(window));
        (0..10).filter(|call| limiter.allow(Duration::from_secs(call * seconds_between))).count()
    }

    #[test]
    fn limits_like_client_go() {
        assert_eq!(allowed_of_ten(1, 0), 2);
        assert_eq!(allowed_of_ten(5, 1), 4);
    }
}
