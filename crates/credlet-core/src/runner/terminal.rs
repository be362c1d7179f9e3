//! Lending the terminal to a program that talks to a person.

use std::io::stdin;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{
    Pid, Signal as Send, WaitId, WaitIdOptions, kill_current_process_group, kill_process_group, waitid,
};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// This process's group, if it has the terminal. One in the background must not take it from somebody else.
///
/// In a PID namespace entered without a session of its own the group is outside and has no number in here; rustix takes
/// for granted that it has one.
pub(super) fn our_foreground_group() -> Option<Pid> {
    let ours = Pid::from_raw(nix::unistd::getpgrp().as_raw())?;
    (tcgetpgrp(stdin()) == Ok(ours)).then_some(ours)
}

/// The terminal, lent to another process group: its keyboard, and its Ctrl-C. Taken back on drop.
pub(super) struct Lent {
    group: Pid,
    ours: Pid,
    settings: Option<Termios>,
}

impl Lent {
    /// Lends it to `group`, which must exist, until it is given back to `ours`.
    pub(super) fn to(group: Pid, ours: Pid) -> Self {
        let lent = Self { group, ours, settings: tcgetattr(stdin()).ok() };
        lent.lend();
        lent
    }

    fn lend(&self) {
        hand_to(self.group);
        // It may already have asked for input as a background process, and been stopped for that.
        let _ = kill_process_group(self.group, Send::CONT);
    }

    /// Ctrl-Z stops the program that has the terminal, and nobody else: the shell would wait for us, and we for the
    /// program. So we stop too, as one job; and when the shell wakes us, the program has the terminal again.
    pub(super) async fn stop_together(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let stopped = waitid(WaitId::Pid(self.group), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
            if matches!(stopped, Ok(Some(_))) {
                hand_to(self.ours);
                // Has no effect without a shell that could wake us again.
                let _ = kill_current_process_group(Send::TSTP);
                self.lend();
            }
        }
    }

    /// The program ended in good order: what it did to the terminal's settings it did on purpose.
    pub(super) fn keep_settings(&mut self) {
        self.settings = None;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        hand_to(self.ours);
        if let Some(settings) = &self.settings {
            // Somebody ended while asking for a password leaves a terminal that does not echo.
            let _ = tcsetattr(stdin(), OptionalActions::Now, settings);
        }
    }
}

/// Sets the foreground group. From the background, which is where we are when we take the terminal back, that would
/// stop this process (SIGTTOU) unless the signal is blocked.
fn hand_to(group: Pid) {
    let mut block = SigSet::empty();
    block.add(Signal::SIGTTOU);
    let before = block.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    // Without a terminal any more there is nothing to hand over.
    let _ = tcsetpgrp(stdin(), group);
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
}
