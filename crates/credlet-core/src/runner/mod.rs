//! Starting a foreign program, and not being at its mercy.

mod attached;
mod collect;
mod detached;
mod group;
mod process;
mod signals;
mod system;
mod tail;
mod terminal;

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use zeroize::Zeroizing;

pub use self::attached::{Attached, ask_to_end, become_program, hang_up, start_attached};
pub use self::detached::{Starting, close_inherited, start_detached, start_reporting};
pub use self::process::Process;
pub use self::system::{StderrFn, StderrSink, SystemRunner};

/// Runs programs.
pub trait Runner: fmt::Debug + Send + Sync {
    /// Runs one to its end, or to its limits. Dropping the future ends the program too.
    fn run(&self, program: Program) -> Pin<Box<dyn Future<Output = Result<Finished, RunError>> + Send + '_>>;

    /// Runs one that may go on after it has answered, until it has done so or ended. What it prints after the answer
    /// is dropped. Dropping the future ends the program.
    ///
    /// A runner that knows only programs that end need not know this.
    fn start(
        &self,
        program: Program,
        answer: AnswerEnd,
    ) -> Pin<Box<dyn Future<Output = Result<Started, RunError>> + Send + '_>> {
        let _ = answer;
        let run = self.run(program);
        Box::pin(async { run.await.map(Started::Ended) })
    }
}

/// Finds the end of the answer in what a program has printed so far. `None`: it is not there yet.
pub type AnswerEnd = fn(&[u8]) -> Option<usize>;

/// A program that was started and has answered.
#[derive(Debug)]
pub enum Started {
    /// It has come to its end, with an answer or without.
    Ended(Finished),
    /// It has answered and goes on.
    Alive {
        /// What it printed, up to the end of the answer.
        answer: Answer,
        /// Itself.
        process: Process,
    },
}

/// What a program printed up to the end of its answer, and the last of what it wrote to standard error so far.
pub struct Answer {
    /// What it printed.
    pub stdout: Zeroizing<Vec<u8>>,
    /// The last of its standard error.
    pub stderr: Zeroizing<Vec<u8>>,
}

/// What a plugin prints is secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer([{} bytes redacted])", self.stdout.len())
    }
}

/// A program to be run, with all that it gets to see.
#[derive(Clone)]
pub struct Program {
    /// The file, already found.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment; each name once.
    pub env: Vec<(OsString, OsString)>,
    /// Its standard input, which also decides what becomes of its standard error.
    pub stdin: Stdin,
    /// What it must not exceed.
    pub limits: Limits,
}

/// Arguments and variables are often secrets.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("path", &self.path)
            .field("args", &format_args!("[{} redacted]", self.args.len()))
            .field("env", &format_args!("[{} redacted]", self.env.len()))
            .field("stdin", &self.stdin)
            .field("limits", &self.limits)
            .finish()
    }
}

/// A program's standard input.
#[derive(Clone)]
pub enum Stdin {
    /// The null device. The program gets a process group of its own, and its standard error passes through us.
    Null,
    /// These bytes. Otherwise as with `Null`.
    Bytes(Zeroizing<Vec<u8>>),
    /// Our own standard input, which is a terminal. So that a person can talk to it, the program also has our standard
    /// error itself, and the terminal's foreground while it runs.
    Terminal,
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bytes(bytes) => write!(f, "Bytes([{} redacted])", bytes.len()),
            Self::Terminal => f.write_str("Terminal"),
        }
    }
}

/// What a program must not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run. Then its process group is ended.
    pub time: Duration,
    /// How many bytes it may print.
    pub stdout: usize,
}

impl Limits {
    /// For a program on its own: 60 s and 1 MiB.
    pub const ALONE: Self = Self { time: Duration::from_secs(60), stdout: 1 << 20 };

    /// For a program that talks to a person: 5 minutes and 1 MiB.
    pub const WITH_PERSON: Self = Self { time: Duration::from_secs(300), stdout: 1 << 20 };
}

/// A program that has come to its end.
pub struct Finished {
    /// How.
    pub ended: Ended,
    /// All that it printed.
    pub stdout: Zeroizing<Vec<u8>>,
    /// The last of what it wrote to standard error; nothing if that was a terminal.
    pub stderr: Zeroizing<Vec<u8>>,
}

/// What a plugin prints is secret.
impl fmt::Debug for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finished")
            .field("ended", &self.ended)
            .field("stdout", &format_args!("[{} bytes redacted]", self.stdout.len()))
            .field("stderr", &format_args!("[{} bytes redacted]", self.stderr.len()))
            .finish()
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl Ended {
    /// By SIGKILL, which no program can expect.
    pub const KILLED: Self = Self::Killed(nix::sys::signal::Signal::SIGKILL as i32);

    /// Whether it says that all went well.
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    /// The code that metrics know: -1 for a signal, as in Go.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(_) => -1,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => {
                let name = nix::sys::signal::Signal::try_from(signal).map_or("a signal", |signal| signal.as_str());
                write!(f, "was ended by {name}")
            }
        }
    }
}

/// Why a program did not come to its end.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not be started.
    #[error("it cannot be started: {reason}")]
    Start {
        /// The system's reason.
        reason: OsError,
    },
    /// One argument or variable is longer than the system takes.
    #[error("{what} has {bytes} bytes, and this system passes at most {limit} in one")]
    TooLong {
        /// Which.
        what: String,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// All of them together are.
    #[error("its arguments and variables have {bytes} bytes together, more than this system passes")]
    TooMuch {
        /// How long they are.
        bytes: usize,
    },
    /// It ran too long.
    #[error("it did not finish within {limit:?}")]
    TimedOut {
        /// How long it was given.
        limit: Duration,
        /// The last of its standard error.
        stderr: Zeroizing<Vec<u8>>,
    },
    /// It printed too much.
    #[error("it printed more than {limit} bytes")]
    TooMuchOutput {
        /// How much it was given.
        limit: usize,
        /// The last of its standard error.
        stderr: Zeroizing<Vec<u8>>,
    },
    /// Its output could not be read.
    #[error("its output cannot be read: {reason}")]
    Read {
        /// The system's reason.
        reason: OsError,
    },
}

impl RunError {
    /// The last of the program's standard error.
    pub fn stderr(&self) -> &[u8] {
        match self {
            Self::TimedOut { stderr, .. } | Self::TooMuchOutput { stderr, .. } => stderr,
            _ => &[],
        }
    }
}

/// What a plugin writes is secret.
impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunError({self})")
    }
}

/// An error of the operating system that can be kept and shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct OsError {
    code: Option<i32>,
    kind: io::ErrorKind,
}

impl OsError {
    /// Whether the file, or the interpreter its first line names, is missing.
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
