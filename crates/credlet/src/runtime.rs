//! The async runtime of subcommands, and their shutdown on signals.

use std::future::Future;

use credlet_platform::process::exit_by_signal;
use credlet_platform::signals::{SignalStream, TerminationSignal};

use crate::commands::Outcome;
use crate::error::CliError;

/// Runs a subcommand to completion on a current-thread runtime.
///
/// On SIGINT, SIGTERM and SIGHUP the future is dropped first, which kills a running plugin: a plugin runs in a separate process group,
/// so the terminal does not signal it. The process then exits by that signal.
pub(crate) fn run(verb: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::internal(format!("failed to start the async runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        let mut signals = [TerminationSignal::Interrupt, TerminationSignal::Terminate, TerminationSignal::Hangup]
            .map(|signal| signal.listen().ok().map(|stream| (signal, stream)));
        let [interrupt, terminate, hang_up] = &mut signals;
        tokio::select! {
            outcome = verb => Ok(outcome),
            signal = wait_for_signal(interrupt) => Err(signal),
            signal = wait_for_signal(terminate) => Err(signal),
            signal = wait_for_signal(hang_up) => Err(signal),
        }
    });
    // Does not wait for blocking threads, for example one in a DNS look-up.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|signal| exit_by_signal(signal.number()))
}

/// Pending forever for a signal without a handler.
async fn wait_for_signal(signal: &mut Option<(TerminationSignal, SignalStream)>) -> TerminationSignal {
    match signal {
        Some((signal, stream)) => {
            stream.recv().await;
            *signal
        }
        None => std::future::pending().await,
    }
}
