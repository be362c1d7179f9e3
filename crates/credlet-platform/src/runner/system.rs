use std::fmt;
use std::future::Future;
use std::io::ErrorKind::NotFound;
use std::io::IsTerminal as _;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::TerminalFilter;
use rustix::process::Pid;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use zeroize::Zeroizing;

use super::collect::{ProcessState, collect_output};
use super::forward_signals::SignalForwarder;
use super::process_group::ProcessGroup;
use super::terminal::{self, ForegroundGuard};
use super::{
    CommandSpec, CompletedProcess, OutputEndFn, ProcessExit, ProcessOutput, ProcessRunner, RunError, RunOutcome,
    RunningProcess, StdinSource,
};

/// How long a process may take to exit after SIGTERM before it receives SIGKILL.
const TERM_GRACE: Duration = Duration::from_millis(500);

/// `MAX_ARG_STRLEN` of Linux (32 pages): limit of a single argument or variable.
const MAX_ARG_LEN: usize = 128 << 10;

/// Runs processes of the operating system, with tokio.
#[derive(Clone, Debug, Default)]
pub struct SystemRunner {
    stderr: StderrSink,
    forwards_signals: bool,
}

impl SystemRunner {
    /// Forwards the standard error of child processes to that of this process.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forwards the standard error of child processes to `stderr`.
    pub fn with_stderr(stderr: StderrSink) -> Self {
        Self { stderr, ..Self::default() }
    }

    /// Forwards SIGINT, SIGTERM, SIGHUP and SIGQUIT to the running child; they no longer terminate this process. For
    /// programs that wrap another one.
    #[must_use]
    pub fn forwarding_signals(self) -> Self {
        Self { forwards_signals: true, ..self }
    }
}

/// Destination of the standard error of non-interactive child processes.
///
/// An interactive child inherits the terminal, and its standard error is not read.
#[derive(Clone, Default)]
pub enum StderrSink {
    /// Standard error of this process. If that is a terminal, control characters other than newline and tab are escaped;
    /// otherwise the bytes are forwarded unchanged.
    #[default]
    Inherit,
    /// Discarded, apart from the last bytes, which are retained for the error message.
    Discard,
    /// Passed to this function in chunks. The function must not block.
    Custom(Arc<StderrFn>),
}

/// Receives standard error of child processes.
pub type StderrFn = dyn Fn(&[u8]) + Send + Sync;

/// Writes the standard error of one process to a [`StderrSink`].
pub(super) struct StderrWriter<'a> {
    sink: &'a StderrSink,
    filter: Option<TerminalFilter>,
}

impl StderrSink {
    pub(super) fn stream(&self) -> StderrWriter<'_> {
        let filtered = matches!(self, Self::Inherit) && std::io::stderr().is_terminal();
        StderrWriter { sink: self, filter: filtered.then(TerminalFilter::default) }
    }
}

impl StderrWriter<'_> {
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        match (self.sink, &mut self.filter) {
            (StderrSink::Inherit, Some(filter)) => write_stderr(Zeroizing::new(filter.push(bytes)).as_bytes()).await,
            (StderrSink::Inherit, None) => write_stderr(bytes).await,
            (StderrSink::Discard, _) => {}
            (StderrSink::Custom(sink), _) => sink(bytes),
        }
    }

    /// Flushes an incomplete character.
    pub(super) async fn finish(mut self) {
        if let Some(rest) = self.filter.as_mut().map(TerminalFilter::finish).filter(|rest| !rest.is_empty()) {
            write_stderr(rest.as_bytes()).await;
        }
    }
}

/// Ignores errors: standard error may be closed.
async fn write_stderr(bytes: &[u8]) {
    let mut stderr = tokio::io::stderr();
    let _ = stderr.write_all(bytes).await;
    let _ = stderr.flush().await;
}

impl fmt::Debug for StderrSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inherit => "EnvInheritance",
            Self::Discard => "Discard",
            Self::Custom(_) => "Custom",
        })
    }
}

impl ProcessRunner for SystemRunner {
    fn run(
        &self,
        command: CommandSpec,
    ) -> Pin<Box<dyn Future<Output = Result<CompletedProcess, RunError>> + Send + '_>> {
        Box::pin(async {
            match run(command, self, None).await? {
                RunOutcome::Exited(completed) => Ok(completed),
                // Unreachable: without `output_end` the process is waited for.
                RunOutcome::Running { .. } => Err(RunError::Read { reason: std::io::Error::from(NotFound).into() }),
            }
        })
    }

    fn run_until(
        &self,
        command: CommandSpec,
        output_end: OutputEndFn,
    ) -> Pin<Box<dyn Future<Output = Result<RunOutcome, RunError>> + Send + '_>> {
        Box::pin(run(command, self, Some(output_end)))
    }
}

async fn run(
    command: CommandSpec,
    runner: &SystemRunner,
    output_end: Option<OutputEndFn>,
) -> Result<RunOutcome, RunError> {
    let interactive = matches!(command.stdin, StdinSource::Terminal);
    // A background process cannot make a new group the foreground group, so its interactive child shares its group.
    let own_group = if interactive { terminal::own_foreground_group() } else { None };
    let separate_group = !interactive || own_group.is_some();
    // Installed before the child exists, so that no signal is lost.
    let signals = if runner.forwards_signals { SignalForwarder::install() } else { SignalForwarder::default() };
    let mut child = spawn(&command, separate_group)?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let pid = pid.ok_or(RunError::Read { reason: std::io::Error::from(NotFound).into() })?;
    let group = ProcessGroup::new(pid, separate_group);
    let mut foreground = own_group.map(|own_group| ForegroundGuard::hand_over(pid, own_group));

    let input = match &command.stdin {
        StdinSource::Bytes(bytes) => bytes.as_slice(),
        StdinSource::Null | StdinSource::Terminal => &[],
    };
    let collected = tokio::select! {
        collected = collect_output(&mut child, input, command.limits, &runner.stderr, output_end) => collected,
        never = stop_with_child(foreground.as_ref()) => match never {},
        never = signals.forward_to(&group) => match never {},
    };
    match collected {
        Ok(collected) => {
            let (stdout, stderr) = (collected.stdout, collected.stderr);
            let exit = match collected.state {
                ProcessState::Exited(status) => ProcessExit::from(status),
                ProcessState::Running(streams) => {
                    let process = RunningProcess::supervise(child, group, streams, runner.stderr.clone());
                    return Ok(RunOutcome::Running { output: ProcessOutput { stdout, stderr }, process });
                }
            };
            group.release();
            if let (Some(foreground), ProcessExit::Exited(_)) = (&mut foreground, exit) {
                foreground.keep_settings();
            }
            Ok(RunOutcome::Exited(CompletedProcess { exit, stdout, stderr }))
        }
        Err(error) => {
            terminate_and_reap(&mut child, group).await;
            Err(error)
        }
    }
}

async fn stop_with_child(foreground: Option<&ForegroundGuard>) -> std::convert::Infallible {
    match foreground {
        Some(foreground) => foreground.stop_with_child().await,
        None => std::future::pending().await,
    }
}

#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
fn spawn(spec: &CommandSpec, separate_group: bool) -> Result<Child, RunError> {
    check_arg_lengths(spec)?;
    let (stdin, stderr) = match spec.stdin {
        StdinSource::Null => (Stdio::null(), Stdio::piped()),
        StdinSource::Bytes(_) => (Stdio::piped(), Stdio::piped()),
        StdinSource::Terminal => (Stdio::inherit(), Stdio::inherit()),
    };
    let mut command = Command::new(&spec.path);
    command
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(stderr);
    if separate_group {
        command.process_group(0);
    }
    command.spawn().map_err(|error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::TOOBIG) => {
            RunError::ArgumentsTooLarge { bytes: arg_lengths(spec).map(|(_, bytes)| bytes).sum() }
        }
        _ => RunError::Spawn { reason: error.into() },
    })
}

/// Names the argument or variable that is too long; `execve` returns only `E2BIG`.
fn check_arg_lengths(spec: &CommandSpec) -> Result<(), RunError> {
    match arg_lengths(spec).find(|(_, bytes)| cfg!(target_os = "linux") && *bytes > MAX_ARG_LEN) {
        Some((what, bytes)) => Err(RunError::ArgumentTooLong { what, bytes, limit: MAX_ARG_LEN }),
        None => Ok(()),
    }
}

/// Returns the arguments and variables with the lengths that the kernel counts: `NAME=value` and a NUL byte.
fn arg_lengths(spec: &CommandSpec) -> impl Iterator<Item = (String, usize)> + '_ {
    let args = spec.args.iter().enumerate().map(|(index, arg)| (format!("argument {index}"), arg.len() + 1));
    let env = spec
        .env
        .iter()
        .map(|(name, value)| (format!("the variable {}", name.to_string_lossy()), name.len() + value.len() + 2));
    args.chain(env)
}

/// Sends SIGTERM, so that the process can restore the terminal, and SIGKILL after [`TERM_GRACE`]. Reaps the child.
pub(super) async fn terminate_and_reap(child: &mut Child, group: ProcessGroup) {
    group.terminate();
    let _ = tokio::time::timeout(TERM_GRACE, child.wait()).await;
    group.kill();
    let _ = child.wait().await;
    group.release();
}
