//! Runs the cache as an exec plugin: prints one `ExecCredential` on standard output.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_exec::cache::{CacheInvocation, CacheMode, CacheOptions, CacheWarning};
use credlet_exec::{
    Clock as _, Platform, ProcessExit, RunningProcess, SystemClock, SystemEnv, SystemRunner, spawn_detached,
};
use credlet_platform::daemon::{DetachableStdio, shutdown_signal};
use credlet_platform::process::{exit_by_signal, leave_session};

/// Runs `credlet cache [options] -- PLUGIN ARGS…`. Returns `None` for other command lines, which clap then parses.
pub(crate) fn early(args: &[OsString]) -> Option<ExitCode> {
    let args = args.get(1..)?;
    let args = args.strip_prefix(&[OsString::from("plugin")]).unwrap_or(args);
    let args = args.strip_prefix(&[OsString::from("cache")])?;
    CacheOptions::parse(args).map(run)
}

pub(super) fn run(options: CacheOptions) -> ExitCode {
    let link = crate::early::cache_link();
    let mut call = match CacheInvocation::with_link(options, link.as_deref(), &SystemEnv) {
        Ok(call) => call,
        Err(warning) => {
            print_warning(&warning);
            return ExitCode::FAILURE;
        }
    };
    if let Some(hit) = call.hit(SystemClock::new().now()) {
        let code = print(&hit.response);
        if hit.refresh_due {
            spawn_refresh();
        }
        return code;
    }
    if call.mode() == CacheMode::BackgroundRefresh {
        // Leave the client's session, so that Ctrl-C at its terminal does not end the refresh.
        leave_session();
    }
    let runner = Arc::new(SystemRunner::new().forwarding_signals());
    let platform = Platform { runner, ..Platform::system() };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return crate::error::CliError::internal(format!("failed to start the async runtime: {error}")).report();
        }
    };
    let response = runtime.block_on(call.miss(&platform, &mut |warning| print_warning(&warning)));
    let printed = print(&response.stdout);
    let ended = match response.process {
        Some(process) => runtime.block_on(wait_for_proxy(process)),
        None => response.exit,
    };
    runtime.shutdown_background();
    match ended {
        ProcessExit::Exited(0) => printed,
        ProcessExit::Exited(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        ProcessExit::Killed(signal) => exit_by_signal(signal),
    }
}

/// Waits for a plugin that keeps running as an exec proxy (KEP-2718), and terminates it on SIGTERM or SIGINT. Standard output is
/// closed, so that the client does not wait for more.
async fn wait_for_proxy(process: RunningProcess) -> ProcessExit {
    let let_go = DetachableStdio::prepare().and_then(DetachableStdio::detach);
    if let_go.is_err() {
        return process.terminate().await;
    }
    let process = tokio::select! {
        ended = process.wait() => return ended,
        () = shutdown_signal() => process,
    };
    process.terminate().await
}

/// Writes the response to standard output: unbuffered to a client, escaped to a terminal.
fn print(response: &[u8]) -> ExitCode {
    let mut stdout = crate::printer::plugin_stdout();
    match stdout.write_all(response).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Refreshes the entry in a detached process with the same arguments and the same name, because a policy may allow a link only.
fn spawn_refresh() {
    if let Ok(program) = std::env::current_exe() {
        // If it cannot be started, a later call waits for the plugin.
        let _ = spawn_detached(&program, std::env::args_os(), [CacheMode::BACKGROUND_REFRESH]);
    }
}

fn print_warning(warning: &CacheWarning) {
    let kind = if warning.is_warning() { "warning" } else { "error" };
    let mut stderr = std::io::stderr().lock();
    // If stderr is closed, the exit code remains.
    let _ = writeln!(stderr, "{kind}: {}", credlet_api::escape_indented(&warning.to_string()));
    if let Some(hint) = warning.hint() {
        let _ = writeln!(stderr, "hint: {}", credlet_api::escape_indented(hint));
    }
}
