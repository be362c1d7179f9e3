//! Renewing a value that is in use, also when nobody happens to ask shortly before its end.

use std::sync::Arc;
use std::time::Duration;

use super::entry::{Entry, Now};
use super::{Shared, Source, State};

/// Just after the moment at which a value is due: at that very moment it is still fresh.
const JUST_AFTER: Duration = Duration::from_millis(1);

impl<S: Source> Shared<S> {
    /// Watches over `entry` in place of the one before it. A value nobody uses any more is left to expire.
    pub(super) fn keep(self: &Arc<Self>, state: &mut State<S>, entry: &Arc<Entry<S::Value>>, now: Now) {
        if let Some(before) = state.keeper.take() {
            before.abort();
        }
        let Some(due_in) = entry.due_in(now) else { return };
        let soonest = state.leave_alone_until.saturating_sub(now.monotonic);
        let (shared, entry) = (Arc::downgrade(self), Arc::downgrade(entry));
        let clock = Arc::clone(&self.clock);
        let task = tokio::spawn(async move {
            clock.sleep(due_in.max(soonest) + JUST_AFTER).await;
            let (Some(shared), Some(entry)) = (shared.upgrade(), entry.upgrade()) else { return };
            let mut state = shared.lock();
            let is_current = shared.current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, &entry));
            if is_current && entry.is_used() {
                let now = shared.now();
                shared.run_ahead(&mut state, now);
            }
        });
        state.keeper = Some(task.abort_handle());
    }
}
