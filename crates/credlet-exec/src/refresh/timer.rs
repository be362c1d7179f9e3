//! Refreshes a value in use ahead of its expiry, without waiting for a request.

use std::sync::Arc;
use std::time::Duration;

use super::entry::{CachedValue, ClockReading};
use super::{Shared, Source, State};

/// Added to the delay, because a value still counts as fresh at the exact moment of its refresh time.
const TIMER_MARGIN: Duration = Duration::from_millis(1);

impl<S: Source> Shared<S> {
    /// Schedules the refresh of `entry` and cancels that of its predecessor. A value that is not in use is left to expire.
    pub(super) fn schedule_refresh(
        self: &Arc<Self>,
        state: &mut State<S>,
        entry: &Arc<CachedValue<S::Value>>,
        now: ClockReading,
    ) {
        if let Some(previous) = state.refresh_timer.take() {
            previous.abort();
        }
        let Some(delay) = entry.refresh_in(now) else { return };
        let cooldown = state.cooldown_until.saturating_sub(now.monotonic);
        let (shared, entry) = (Arc::downgrade(self), Arc::downgrade(entry));
        let clock = Arc::clone(&self.clock);
        let task = tokio::spawn(async move {
            clock.sleep(delay.max(cooldown) + TIMER_MARGIN).await;
            let (Some(shared), Some(entry)) = (shared.upgrade(), entry.upgrade()) else { return };
            let mut state = shared.lock();
            let is_current = shared.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, &entry));
            if is_current && entry.is_used() {
                let now = shared.now();
                shared.prefetch(&mut state, now);
            }
        });
        state.refresh_timer = Some(task.abort_handle());
    }
}
