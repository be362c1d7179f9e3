use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A child process and, if it leads one, its process group. Killed when this is dropped.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: Pid,
    /// Whether the child leads its own group. Otherwise it is in the group of this process, and only the child is
    /// signalled.
    is_separate: bool,
    signal_on_drop: Option<Signal>,
}

impl ProcessGroup {
    pub(super) fn new(leader: Pid, is_separate: bool) -> Self {
        Self { leader, is_separate, signal_on_drop: Some(Signal::KILL) }
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Leaves the group running: a process that exited may have started a background process on purpose.
    pub(super) fn release(mut self) {
        self.signal_on_drop = None;
    }

    /// Sends SIGTERM instead of SIGKILL on drop, so that a server can shut down in an orderly way.
    pub(super) fn terminate_on_drop(self) -> Self {
        let group = Self { leader: self.leader, is_separate: self.is_separate, signal_on_drop: Some(Signal::TERM) };
        self.release();
        group
    }

    pub(super) fn signal(&self, signal: Signal) {
        // Fails if all processes have exited.
        let _ =
            if self.is_separate { kill_process_group(self.leader, signal) } else { kill_process(self.leader, signal) };
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(signal) = self.signal_on_drop {
            self.signal(signal);
        }
    }
}
