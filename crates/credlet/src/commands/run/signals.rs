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
        })
    }

    /// Returns when the terminal is gone: the command may not be of its group, and know nothing of it.
    pub(super) async fn hung_up(&mut self) {
        if let Some(hang_up) = &mut self.hang_up
            && hang_up.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

/// A bit for each signal that is ignored. None where nobody says so.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
