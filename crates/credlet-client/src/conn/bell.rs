use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Wake, Waker};

use super::line::Line;

/// Wakes whoever drives a connection that has no task of its own, but not for nothing.
///
/// The HTTP library knows tasks only. When somebody sends a request or asks for the next piece of an answer, it wakes the
/// connection's. Here that is the very same task, which drives the connection next, and would run once more afterwards.
pub(super) struct Bell {
    clapper: Arc<Clapper>,
    pub(super) waker: Waker,
}

struct Clapper {
    driver: Waker,
    line: Arc<Line>,
    muffled: AtomicBool,
}

impl Bell {
    pub(super) fn new(driver: &Waker, line: &Arc<Line>) -> Self {
        let clapper = Clapper { driver: driver.clone(), line: line.clone(), muffled: AtomicBool::new(false) };
        let clapper = Arc::new(clapper);
        line.has_bell(true);
        Self { waker: Waker::from(clapper.clone()), clapper }
    }

    pub(super) fn wakes(&self, driver: &Waker) -> bool {
        self.clapper.driver.will_wake(driver)
    }

    /// Does `work` without the bell, if there is one. Nothing is missed: whatever happens meanwhile is seen when the
    /// connection is driven next, which whoever waits for it does before they wait.
    ///
    /// Who rings marks the line and then looks whether the bell is muffled; who drives takes the muffle off and then looks
    /// at the mark. Only in one order for all (`SeqCst`) does one of them see the other.
    pub(super) fn muffled<T>(bell: Option<&Self>, work: impl FnOnce() -> T) -> T {
        let Some(Self { clapper, .. }) = bell else { return work() };
        clapper.muffled.store(true, SeqCst);
        let done = work();
        clapper.muffled.store(false, SeqCst);
        done
    }
}

impl Wake for Clapper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.line.stir();
        if !self.muffled.load(SeqCst) {
            self.driver.wake_by_ref();
        }
    }
}
