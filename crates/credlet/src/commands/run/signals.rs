//! Signal handling while a command runs.

use credlet_platform::signals::{SignalStream, TerminationSignal, is_ignored};

use super::usage_error;
use crate::error::CliError;

/// Handlers for signals that would end this process before it has removed its files.
///
/// The signals are handled, not blocked, so child processes get them as usual. SignalHandlers that were ignored at start stay
/// ignored, as `nohup` expects.
#[derive(Debug)]
pub(super) struct SignalHandlers {
    /// The terminal sends SIGINT and SIGQUIT to the whole process group, which includes the command.
    _left_to_others: [Option<SignalStream>; 2],
    hang_up: Option<SignalStream>,
    terminate: Option<SignalStream>,
}

/// A signal to forward, which may have been sent to this process only.
#[derive(Clone, Copy, Debug)]
pub(super) enum ForwardedSignal {
    /// SIGHUP: the terminal was closed.
    Hangup,
    /// SIGTERM, which `kill` and service managers send.
    Terminate,
}

impl SignalHandlers {
    pub(super) fn catch() -> Result<Self, CliError> {
        let catch = |signal: TerminationSignal| {
            (!is_ignored(signal.number())).then(|| signal.listen()).transpose().map_err(usage_error)
        };
        Ok(Self {
            _left_to_others: [catch(TerminationSignal::Interrupt)?, catch(TerminationSignal::Quit)?],
            hang_up: catch(TerminationSignal::Hangup)?,
            terminate: catch(TerminationSignal::Terminate)?,
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
async fn received(signal: &mut Option<SignalStream>) {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}
