//! The async runtime of subcommands, and their shutdown on signals.

use std::future::Future;

use credlet_platform::signals::signal;
use tokio::signal::unix::{Signal, SignalKind};

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
        let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .map(|kind| signal(kind).ok().map(|signal| (kind, signal)));
        let [interrupt, terminate, hang_up] = &mut signals;
        tokio::select! {
            outcome = verb => Ok(outcome),
            kind = wait_for_signal(interrupt) => Err(kind),
            kind = wait_for_signal(terminate) => Err(kind),
            kind = wait_for_signal(hang_up) => Err(kind),
        }
    });
    // Does not wait for blocking threads, for example one in a DNS look-up.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|kind| exit_by_signal(kind.as_raw_value()))
}

async fn wait_for_signal(signal: &mut Option<(SignalKind, Signal)>) -> SignalKind {
    if let Some((kind, signal)) = signal
        && signal.recv().await.is_some()
    {
        return *kind;
    }
    std::future::pending().await
}

/// Exits by the default action of the signal. A shell ends its loop for a child that was killed by a signal, not for one with an exit
/// code.
pub(crate) fn exit_by_signal(signal: i32) -> ! {
    // Returns only if the default action does not terminate the process.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    signal_hook::low_level::exit(128 + signal)
}
