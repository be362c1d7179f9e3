//! Lending the terminal to a program that talks to a person.

use std::io::stdin;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Pid, Signal as Send, getpgrp, kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// Whether this process's group has the terminal. One in the background must not take it from somebody else.
pub(super) fn is_ours() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

/// The terminal, lent to another process group: its keyboard, and its Ctrl-C. Taken back on drop.
pub(super) struct Lent {
    ours: Pid,
    settings: Option<Termios>,
}

impl Lent {
    /// Lends it to the group `to`, which must exist.
    pub(super) fn to(group: Pid) -> Self {
        let lent = Self { ours: getpgrp(), settings: tcgetattr(stdin()).ok() };
        hand_to(group);
        // It may already have asked for input as a background process, and been stopped for that.
        let _ = kill_process_group(group, Send::CONT);
        lent
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
