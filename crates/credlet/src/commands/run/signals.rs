//! Signal handling while a command runs.

use credlet_platform::signals::{is_ignored, signal};
use tokio::signal::unix::{Signal, SignalKind};

use super::usage_error;
use crate::error::CliError;

/// Handlers for signals that would end this process before it has removed its files.
///
/// The signals are handled, not blocked, so child processes get them as usual. SignalHandlers that were ignored at start stay
/// ignored, as `nohup` expects.
#[derive(Debug)]
pub(super) struct SignalHandlers {
    /// The terminal sends SIGINT and SIGQUIT to the whole process group, which includes the command.
    _left_to_others: [Option<Signal>; 2],
    hang_up: Option<Signal>,
    terminate: Option<Signal>,
}

/// A signal to forward, which may have been sent to this process only.
#[derive(Clone, Copy, Debug)]
pub(super) enum ForwardedSignal {
    /// SIGHUP.
    Hangup,
    /// SIGTERM.
    Terminate,
}

impl SignalHandlers {
    pub(super) fn catch() -> Result<Self, CliError> {
        let catch = |kind: SignalKind| {
            (!is_ignored(kind.as_raw_value())).then(|| signal(kind)).transpose().map_err(usage_error)
        };
        Ok(Self {
            _left_to_others: [catch(SignalKind::interrupt())?, catch(SignalKind::quit())?],
            hang_up: catch(SignalKind::hangup())?,
            terminate: catch(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) -> ForwardedSignal {
        tokio::select! {
            () = received(&mut self.hang_up) => ForwardedSignal::Hangup,
            () = received(&mut self.terminate) => ForwardedSignal::Terminate,
        }
    }
}

/// Pending forever for a signal without a handler.
async fn received(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}
