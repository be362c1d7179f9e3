//! Signal dispositions for child processes.

use std::sync::Arc;

use credlet_platform::signals::is_ignored;
use rustix::process::Signal;

/// Makes child processes receive SIGHUP, SIGINT and SIGQUIT even if this process ignores them, as it does in the background of a
/// script or under nohup. An ignored signal stays ignored across `exec`, a caught one does not, so this process catches them.
pub fn heed_terminals() {
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT].map(Signal::as_raw).into_iter().filter(|it| is_ignored(*it))
    {
        signal_hook::flag::register(signal, Arc::default()).expect("a signal that can be caught");
    }
}
