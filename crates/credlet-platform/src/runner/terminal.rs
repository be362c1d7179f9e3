//! Hands the terminal's foreground to an interactive child process and takes it back.

use std::io::stdin;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_current_process_group, kill_process_group, waitid};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The process group of this process if it is the terminal's foreground group. A background process must not
/// take the terminal.
///
/// In a PID namespace that was entered without a new session, the group is outside of the namespace and its id is 0, for
/// which `rustix::process::getpgrp` does not allow for.
pub(super) fn own_foreground_group() -> Option<Pid> {
    let own = Pid::from_raw(nix::unistd::getpgrp().as_raw())?;
    (tcgetpgrp(stdin()) == Ok(own)).then_some(own)
}

/// Makes another process group the terminal's foreground group. Restores group and terminal settings on drop.
pub(super) struct ForegroundGuard {
    child_group: Pid,
    own_group: Pid,
    settings: Option<Termios>,
}

impl ForegroundGuard {
    /// Hands the terminal to `child_group`, which must exist.
    pub(super) fn hand_over(child_group: Pid, own_group: Pid) -> Self {
        let guard = Self { child_group, own_group, settings: tcgetattr(stdin()).ok() };
        guard.resume_child();
        guard
    }

    fn resume_child(&self) {
        set_foreground_group(self.child_group);
        // The child may have read from the terminal while in the background, which stopped it (SIGTTIN).
        let _ = kill_process_group(self.child_group, Signal::CONT);
    }

    /// Stops this process whenever the child stops. Ctrl-Z reaches only the foreground group; without this the shell would
    /// wait for this process, and this process for the stopped child. On SIGCONT the child is resumed.
    pub(super) async fn stop_with_child(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let stopped = waitid(WaitId::Pid(self.child_group), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
            if matches!(stopped, Ok(Some(_))) {
                set_foreground_group(self.own_group);
                // The kernel ignores SIGTSTP for an orphaned group, which no shell could continue.
                let _ = kill_current_process_group(Signal::TSTP);
                self.resume_child();
            }
        }
    }

    /// Keeps the terminal settings that the child made. Used if it exited normally.
    pub(super) fn keep_settings(&mut self) {
        self.settings = None;
    }
}

impl Drop for ForegroundGuard {
    fn drop(&mut self) {
        set_foreground_group(self.own_group);
        if let Some(settings) = &self.settings {
            // A child that is killed at a password prompt leaves echo disabled.
            let _ = tcsetattr(stdin(), OptionalActions::Now, settings);
        }
    }
}

/// Sets the terminal's foreground group. SIGTTOU is blocked meanwhile: it would stop a background process, which this
/// process is when it takes the terminal back.
fn set_foreground_group(group: Pid) {
    let mut block = SigSet::empty();
    block.add(NixSignal::SIGTTOU);
    let previous = block.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    // Fails if the terminal was closed.
    let _ = tcsetpgrp(stdin(), group);
    if let Ok(previous) = previous {
        let _ = previous.thread_set_mask();
    }
}
