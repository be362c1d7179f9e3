//! Signal dispositions for child processes.

use std::sync::Arc;

use rustix::process::Signal;

/// Makes child processes receive SIGHUP, SIGINT and SIGQUIT even if this process ignores them, as it does in the background of a
/// script or under nohup. An ignored signal stays ignored across `exec`, a caught one does not, so this process catches them.
pub fn heed_terminals() {
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT].map(Signal::as_raw).into_iter().filter(|it| ignores(*it)) {
        signal_hook::flag::register(signal, Arc::default()).expect("a signal that can be caught");
    }
}

/// Whether the signal is ignored; `false` where /proc is not available.
fn ignores(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}
