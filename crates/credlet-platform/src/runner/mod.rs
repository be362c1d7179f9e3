//! Child processes: limits on time and output, process groups, terminal hand-over, daemons.

mod collect;
mod daemon;
mod foreground;
mod forward_signals;
mod process_group;
mod running;
mod system;
mod tail_buffer;
mod terminal;

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use zeroize::Zeroizing;

pub use self::daemon::{SpawnedDaemon, close_fds, close_inherited_fds, inheritable_fds, spawn_daemon, spawn_detached};
pub use self::foreground::{ForegroundChild, exec_replace, send_hangup, spawn_foreground, terminate_process};
pub use self::running::RunningProcess;
pub use self::system::{StderrFn, StderrSink, SystemRunner};

/// Runs child processes.
pub trait ProcessRunner: fmt::Debug + Send + Sync {
    /// Runs a process until it exits or exceeds a limit. Dropping the future kills the process.
    fn run(
        &self,
        command: CommandSpec,
    ) -> Pin<Box<dyn Future<Output = Result<CompletedProcess, RunError>> + Send + '_>>;

    /// Runs a process until it exits or `output_end` finds the end of its output, whichever comes first. The process
    /// may keep running after that; later output is discarded. Dropping the future kills the process.
    ///
    /// The default implementation waits until the process exits.
    fn run_until(
        &self,
        command: CommandSpec,
        output_end: OutputEndFn,
    ) -> Pin<Box<dyn Future<Output = Result<RunOutcome, RunError>> + Send + '_>> {
        let _ = output_end;
        let run = self.run(command);
        Box::pin(async { run.await.map(RunOutcome::Exited) })
    }
}

/// Returns the length of the complete output in the bytes read so far, or `None` if it is incomplete.
pub type OutputEndFn = fn(&[u8]) -> Option<usize>;

/// Result of [`ProcessRunner::run_until`].
#[derive(Debug)]
pub enum RunOutcome {
    /// The process exited, with complete output or without.
    Exited(CompletedProcess),
    /// The output is complete and the process keeps running.
    Running {
        /// The complete output.
        output: ProcessOutput,
        /// Handle to the process.
        process: RunningProcess,
    },
}

/// Output of a process that is still running.
pub struct ProcessOutput {
    /// Standard output up to the end of the document.
    pub stdout: Zeroizing<Vec<u8>>,
    /// The last bytes of standard error so far.
    pub stderr: Zeroizing<Vec<u8>>,
}

/// Redacts the output, which may contain secrets.
impl fmt::Debug for ProcessOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessOutput([{} bytes redacted])", self.stdout.len())
    }
}

/// A command to run: executable, arguments, environment, standard input and limits.
#[derive(Clone)]
pub struct CommandSpec {
    /// Path of the executable; `PATH` is not searched.
    pub path: PathBuf,
    /// Arguments after `argv[0]`.
    pub args: Vec<String>,
    /// The complete environment, with unique names. Nothing else is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Standard input, which also determines where standard error goes.
    pub stdin: StdinSource,
    /// Limits on run time and output.
    pub limits: RunLimits,
}

/// Redacts arguments and variables, which may contain secrets.
impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSpec")
            .field("path", &self.path)
            .field("args", &format_args!("[{} redacted]", self.args.len()))
            .field("env", &format_args!("[{} redacted]", self.env.len()))
            .field("stdin", &self.stdin)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Standard input of a child process.
#[derive(Clone)]
pub enum StdinSource {
    /// The null device. The process gets its own process group, and its standard error is read through a pipe.
    Null,
    /// These bytes, otherwise like [`Null`](Self::Null).
    Bytes(Zeroizing<Vec<u8>>),
    /// The standard input of this process, which is a terminal. The child inherits standard error too and is the
    /// terminal's foreground process group while it runs, so that it can prompt the user.
    Terminal,
}

impl fmt::Debug for StdinSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bytes(bytes) => write!(f, "Bytes([{} redacted])", bytes.len()),
            Self::Terminal => f.write_str("Terminal"),
        }
    }
}

/// Limits of a child process. A process that exceeds one is killed with its process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Maximum run time.
    pub timeout: Duration,
    /// Maximum size of standard output in bytes.
    pub max_stdout: usize,
}

impl RunLimits {
    /// Default for non-interactive processes: 60 s and 1 MiB.
    pub const NON_INTERACTIVE: Self = Self { timeout: Duration::from_secs(60), max_stdout: 1 << 20 };

    /// Default for processes that prompt the user: 5 minutes and 1 MiB.
    pub const INTERACTIVE: Self = Self { timeout: Duration::from_secs(300), max_stdout: 1 << 20 };
}

/// Exit status and output of a process.
pub struct CompletedProcess {
    /// How the process exited.
    pub exit: ProcessExit,
    /// Complete standard output.
    pub stdout: Zeroizing<Vec<u8>>,
    /// The last bytes of standard error; empty if that was the terminal.
    pub stderr: Zeroizing<Vec<u8>>,
}

/// Redacts the output, which may contain secrets.
impl fmt::Debug for CompletedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletedProcess")
            .field("exit", &self.exit)
            .field("stdout", &format_args!("[{} bytes redacted]", self.stdout.len()))
            .field("stderr", &format_args!("[{} bytes redacted]", self.stderr.len()))
            .finish()
    }
}

/// Exit code or terminating signal of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// Exited with this code.
    Exited(i32),
    /// Terminated by this signal.
    Killed(i32),
}

impl ProcessExit {
    /// Terminated by SIGKILL: by the OOM killer or an operator, since a process cannot handle it.
    pub const KILLED: Self = Self::Killed(nix::sys::signal::Signal::SIGKILL as i32);

    /// Whether the exit code is 0.
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    /// Returns the exit code, or -1 for a signal, as `os.ProcessState.ExitCode` of Go does.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(_) => -1,
        }
    }
}

impl From<std::process::ExitStatus> for ProcessExit {
    fn from(status: std::process::ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt as _;

        match status.code() {
            Some(code) => Self::Exited(code),
            None => Self::Killed(status.signal().unwrap_or_default()),
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => {
                let name = nix::sys::signal::Signal::try_from(signal).map_or("a signal", |signal| signal.as_str());
                write!(f, "was killed by {name}")
            }
        }
    }
}

/// The process was not started, or did not complete within its limits.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The operating system refused to start the process.
    #[error("failed to start the process: {reason}")]
    Spawn {
        /// Error of the operating system.
        reason: OsError,
    },
    /// One argument or variable exceeds the limit of the operating system.
    #[error("{what} is too long: {bytes} bytes exceed the system limit of {limit}")]
    ArgumentTooLong {
        /// Position of the argument, or name of the variable.
        what: String,
        /// Length as the kernel counts it: `NAME=value` and a NUL byte.
        bytes: usize,
        /// Maximum of the kernel, in bytes.
        limit: usize,
    },
    /// All arguments and variables together exceed the limit of the operating system.
    #[error("arguments and environment are too long: {bytes} bytes exceed the system limit")]
    ArgumentsTooLarge {
        /// Sum of the lengths as the kernel counts them.
        bytes: usize,
    },
    /// The process exceeded [`RunLimits::timeout`].
    #[error("timed out after {limit:?}")]
    TimedOut {
        /// Value of [`RunLimits::timeout`].
        limit: Duration,
        /// The last bytes of standard error.
        stderr: Zeroizing<Vec<u8>>,
    },
    /// The process exceeded [`RunLimits::max_stdout`].
    #[error("standard output exceeded the limit of {limit} bytes")]
    OutputTooLarge {
        /// Value of [`RunLimits::max_stdout`], in bytes.
        limit: usize,
        /// The last bytes of standard error.
        stderr: Zeroizing<Vec<u8>>,
    },
    /// Reading the output or waiting for the process failed.
    #[error("failed to read the output: {reason}")]
    Read {
        /// Error of the operating system.
        reason: OsError,
    },
}

impl RunError {
    /// Returns the last bytes of standard error; empty if the process was not started.
    pub fn stderr(&self) -> &[u8] {
        match self {
            Self::TimedOut { stderr, .. } | Self::OutputTooLarge { stderr, .. } => stderr,
            _ => &[],
        }
    }
}

/// Leaves out standard error, which may contain secrets.
impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunError({self})")
    }
}

/// An operating system error that can be cloned, unlike [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct OsError {
    code: Option<i32>,
    kind: io::ErrorKind,
}

impl OsError {
    /// Whether the file is missing, or the interpreter that its first line names.
    pub fn is_not_found(&self) -> bool {
        self.kind == io::ErrorKind::NotFound
    }
}

impl From<io::Error> for OsError {
    fn from(error: io::Error) -> Self {
        Self { code: error.raw_os_error(), kind: error.kind() }
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => io::Error::from_raw_os_error(code).fmt(f),
            None => self.kind.fmt(f),
        }
    }
}
