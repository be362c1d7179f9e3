//! Where verbs run that wait for others, and how they end when somebody presses Ctrl-C.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::commands::Outcome;
use crate::error::CliError;

/// Runs a verb to its end, on this thread.
///
/// On Ctrl-C, and when told to end, everything is dropped first, which ends a plugin that is being run: it has a process
/// group of its own, so the terminal does not reach it. Then the signal does to this process what it does by default.
pub(crate) fn run(verb: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::usage(format!("this system has no means to wait for anything: {error}")))?;
    let outcome = runtime.block_on(async {
        let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .map(|kind| signal(kind).ok().map(|signal| (kind, signal)));
        let [interrupt, terminate, hang_up] = &mut signals;
        tokio::select! {
            outcome = verb => Ok(outcome),
            kind = caught(interrupt) => Err(kind),
            kind = caught(terminate) => Err(kind),
            kind = caught(hang_up) => Err(kind),
        }
    });
    // Not waiting for threads that wait for others: a name being looked up, a file that does not come.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|kind| die_of(kind.as_raw_value()))
}

async fn caught(signal: &mut Option<(SignalKind, Signal)>) -> SignalKind {
    if let Some((kind, signal)) = signal
        && signal.recv().await.is_some()
    {
        return *kind;
    }
    std::future::pending().await
}

/// Ends this process as the signal would have, had nobody caught it: a shell stops its loop for that, and not for an
/// exit code.
pub(crate) fn die_of(signal: i32) -> ! {
    // Only returns if the signal does not end processes.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    signal_hook::low_level::exit(128 + signal)
}
