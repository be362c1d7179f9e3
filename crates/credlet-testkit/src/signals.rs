//! Signals as programs at a terminal have them.

use std::sync::Arc;

use rustix::process::Signal;

/// Lets those who are started from now on be reached by what a terminal sends: a test that runs in the background of a
/// script ignores Ctrl-C, and under nohup that the terminal is closed; and whom it starts would, too. What a process
/// catches they do not ignore, so that is what this one does with those signals, and with no others.
pub fn heed_terminals() {
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT].map(Signal::as_raw).into_iter().filter(|it| ignores(*it)) {
        signal_hook::flag::register(signal, Arc::default()).expect("a signal that can be caught");
    }
}

/// Where nobody says, they are heeded.
fn ignores(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}
