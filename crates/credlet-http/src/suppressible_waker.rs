//! Waker for HTTP/1.1 connections, which are driven by the task of their request.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Wake, Waker};

use super::conn_state::ConnState;

/// Wakes the task that drives a connection, except while that task is about to poll the connection anyway.
///
/// hyper expects the connection to have its own task: sending a request or polling a body wakes that task. Here the
/// same task drives the connection next, and an unsuppressed wake-up would only schedule it once more.
pub(super) struct DriverWaker {
    shared: Arc<SharedWaker>,
    pub(super) waker: Waker,
}

struct SharedWaker {
    driver: Waker,
    state: Arc<ConnState>,
    suppressed: AtomicBool,
}

impl DriverWaker {
    pub(super) fn new(driver: &Waker, state: &Arc<ConnState>) -> Self {
        let shared =
            Arc::new(SharedWaker { driver: driver.clone(), state: state.clone(), suppressed: AtomicBool::new(false) });
        state.set_has_driver_waker(true);
        Self { waker: Waker::from(shared.clone()), shared }
    }

    pub(super) fn wakes(&self, driver: &Waker) -> bool {
        self.shared.driver.will_wake(driver)
    }

    /// Runs `work` while wake-ups are suppressed, if there is a waker. The caller must poll the connection before it
    /// returns `Pending`; then no event is lost.
    ///
    /// The waker sets `woken`, then loads `suppressed`; the driver clears `suppressed`, then loads `woken`. `SeqCst`
    /// guarantees that at least one of them sees the other's store.
    pub(super) fn suppress<T>(waker: Option<&Self>, work: impl FnOnce() -> T) -> T {
        let Some(Self { shared, .. }) = waker else { return work() };
        shared.suppressed.store(true, SeqCst);
        let result = work();
        shared.suppressed.store(false, SeqCst);
        result
    }
}

impl Wake for SharedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.state.mark_woken();
        if !self.suppressed.load(SeqCst) {
            self.driver.wake_by_ref();
        }
    }
}
