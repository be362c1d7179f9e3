//! The plugin's side: one answer on standard output, and nothing else.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_core::{Clock as _, Ended, Process, SystemClock, SystemEnv, SystemRunner, World, start_detached};
use credlet_plugins::cache::{Call, Mode, Note, Options};
use credlet_proxy::server::Stdio;
use tokio::signal::unix::{SignalKind, signal};

/// `credlet cache [options] -- PLUGIN ARGS…`, if these are the words. `None`: something else, or a mistake in them.
pub(crate) fn early(words: &[OsString]) -> Option<ExitCode> {
    let words = words.get(1..)?;
    let words = words.strip_prefix(&[OsString::from("plugin")]).unwrap_or(words);
    let words = words.strip_prefix(&[OsString::from("cache")])?;
    Options::parse(words).map(run)
}

pub(super) fn run(options: Options) -> ExitCode {
    let mut call = match Call::new(options, &SystemEnv) {
        Ok(call) => call,
        Err(note) => {
            tell(&note);
            return ExitCode::FAILURE;
        }
    };
    if let Some(hit) = call.hit(SystemClock::new().now()) {
        let code = print(&hit.answer);
        if hit.ahead {
            run_ahead();
        }
        return code;
    }
    if call.mode() == Mode::Ahead {
        // Ctrl-C at the terminal of the one who started us is not for us.
        let _ = rustix::process::setsid();
    }
    let runner = Arc::new(SystemRunner::new().forwarding_signals());
    let world = World { runner, ..World::system() };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return crate::error::CliError::usage(format!("this system has no means to wait for anything: {error}"))
                .report();
        }
    };
    let answer = runtime.block_on(call.miss(&world, &mut |note| tell(&note)));
    let printed = print(&answer.stdout);
    let ended = match answer.process {
        Some(process) => runtime.block_on(stay_with(process)),
        None => answer.ended,
    };
    runtime.shutdown_background();
    match ended {
        Ended::Exited(0) => printed,
        Ended::Exited(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Ended::Killed(signal) => crate::runtime::die_of(signal),
    }
}

/// The plugin is a proxy, and its client takes us for it: we end when it does, and it ends when we are told to. Nobody is
/// to wait for the end of our output.
async fn stay_with(process: Process) -> Ended {
    let let_go = Stdio::prepare().and_then(Stdio::let_go);
    let told = async {
        let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    if let_go.is_err() {
        return process.end().await;
    }
    let told = tokio::select! {
        ended = process.wait() => return ended,
        () = told => process,
    };
    told.end().await
}

/// Straight to the descriptor: an answer is one write.
fn print(answer: &[u8]) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(answer).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The same words once more, in a process for which nobody waits.
fn run_ahead() {
    if let Ok(program) = std::env::current_exe() {
        // If it cannot be started, somebody will wait for the plugin later.
        let _ = start_detached(&program, crate::early::words().into_iter().skip(1), [Mode::AHEAD]);
    }
}

fn tell(note: &Note) {
    let kind = if note.is_warning() { "warning" } else { "error" };
    let mut stderr = std::io::stderr().lock();
    // Without anybody to tell, there is the exit code.
    let _ = writeln!(stderr, "{kind}: {}", credlet_api::visible(&note.to_string()));
    if let Some(hint) = note.hint() {
        let _ = writeln!(stderr, "hint: {hint}");
    }
}
