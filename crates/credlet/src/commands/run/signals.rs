//! What the terminal says while a command runs in our place.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::told;
use crate::error::CliError;

/// Signals that would end us before we have taken away what is ours.
///
/// They are caught, not blocked: programs that are started get them as usual. Those that whoever started us has ignored
/// stay so, for us and for the command: that is what `nohup` does.
#[derive(Debug)]
pub(super) struct Signals {
    /// Ctrl-C and Ctrl-\ are for the command: it and we are in the same group, so the terminal tells both.
    _left_to_others: [Option<Signal>; 2],
    hang_up: Option<Signal>,
    terminate: Option<Signal>,
}

/// What the command may not know, for it may have been said to us alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    /// The terminal is gone.
    HungUp,
    /// It is time to end.
    ToEnd,
}

impl Signals {
    pub(super) fn catch() -> Result<Self, CliError> {
        let ignored = ignored();
        let catch = |kind: SignalKind| {
            let is_ignored = ignored >> (kind.as_raw_value() - 1) & 1 == 1;
            (!is_ignored).then(|| signal(kind)).transpose().map_err(told)
        };
        Ok(Self {
            _left_to_others: [catch(SignalKind::interrupt())?, catch(SignalKind::quit())?],
            hang_up: catch(SignalKind::hangup())?,
            terminate: catch(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            () = heard(&mut self.hang_up) => Told::HungUp,
            () = heard(&mut self.terminate) => Told::ToEnd,
        }
    }
}

/// Never returns for one that is not caught.
async fn heard(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// A bit for each signal that is ignored. None where nobody says so.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
