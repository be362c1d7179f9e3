use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The processes that a program has become, ended together when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    /// Whether it is a group of its own. In ours, killing the group would kill us.
    own: bool,
    /// What they get when this is dropped.
    last: Option<Signal>,
}

impl Group {
    pub(super) fn new(leader: Pid, own: bool) -> Self {
        Self { leader, own, last: Some(Signal::KILL) }
    }

    /// Asks them to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends them.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Leaves them alone from now on: a program that ended well may have left a helper behind on purpose.
    pub(super) fn release(mut self) {
        self.last = None;
    }

    /// Only asked to end when this is dropped: somebody who serves others has things to put in order.
    pub(super) fn polite(self) -> Self {
        let polite = Self { leader: self.leader, own: self.own, last: Some(Signal::TERM) };
        self.release();
        polite
    }

    /// Sends them a signal.
    pub(super) fn signal(&self, signal: Signal) {
        // An error means that there is nobody left to be signalled.
        let _ = if self.own { kill_process_group(self.leader, signal) } else { kill_process(self.leader, signal) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(signal) = self.last {
            self.signal(signal);
        }
    }
}
