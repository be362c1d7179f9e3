use std::fmt;
use std::future::Future;
use std::io::ErrorKind::NotFound;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use super::collect::{Outcome, collect};
use super::group::Group;
use super::signals::Signals;
use super::terminal::{self, Lent};
use super::{Answer, AnswerEnd, Ended, Finished, Process, Program, RunError, Runner, Started, Stdin};

/// How long a program that is asked to end may take to tidy up.
const TIDY_UP: Duration = Duration::from_millis(500);

/// Linux passes no argument and no variable longer than this (32 pages), whatever the limit on all of them.
const LONGEST: usize = 128 << 10;

/// Runs programs as processes of this machine, on tokio.
#[derive(Clone, Debug, Default)]
pub struct SystemRunner {
    stderr: StderrSink,
    forwards_signals: bool,
}

impl SystemRunner {
    /// Passes on what programs write to standard error to this process's own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Passes it on elsewhere.
    pub fn with_stderr(stderr: StderrSink) -> Self {
        Self { stderr, ..Self::default() }
    }

    /// For a program that stands in for another: Ctrl-C, a request to end and a hang-up, which reach only this process,
    /// are passed on to the one that runs, and how that ends is how the run ends. They no longer end this process.
    #[must_use]
    pub fn forwarding_signals(self) -> Self {
        Self { forwards_signals: true, ..self }
    }
}

/// Where the standard error of a program goes that does not have the terminal.
#[derive(Clone, Default)]
pub enum StderrSink {
    /// To this process's standard error, as with kubectl.
    #[default]
    Inherit,
    /// Nowhere; the end of it is kept for the error message all the same.
    Discard,
    /// To this function, piece by piece. It should return soon.
    Custom(Arc<StderrFn>),
}

/// Somebody who reads what plugins complain about.
pub type StderrFn = dyn Fn(&[u8]) + Send + Sync;

impl StderrSink {
    pub(super) async fn write(&self, bytes: &[u8]) {
        match self {
            Self::Inherit => {
                // A closed standard error is no reason to fail.
                let mut stderr = tokio::io::stderr();
                let _ = stderr.write_all(bytes).await;
                let _ = stderr.flush().await;
            }
            Self::Discard => {}
            Self::Custom(sink) => sink(bytes),
        }
    }
}

impl fmt::Debug for StderrSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inherit => "Inherit",
            Self::Discard => "Discard",
            Self::Custom(_) => "Custom",
        })
    }
}

impl Runner for SystemRunner {
    fn run(&self, program: Program) -> Pin<Box<dyn Future<Output = Result<Finished, RunError>> + Send + '_>> {
        Box::pin(async {
            match run(program, self, None).await? {
                Started::Ended(finished) => Ok(finished),
                // Without an answer to look for, nobody is left alive.
                Started::Alive { .. } => Err(RunError::Read { reason: std::io::Error::from(NotFound).into() }),
            }
        })
    }

    fn start(
        &self,
        program: Program,
        answer: AnswerEnd,
    ) -> Pin<Box<dyn Future<Output = Result<Started, RunError>> + Send + '_>> {
        Box::pin(run(program, self, Some(answer)))
    }
}

async fn run(program: Program, runner: &SystemRunner, answer: Option<AnswerEnd>) -> Result<Started, RunError> {
    let with_terminal = matches!(program.stdin, Stdin::Terminal);
    // In the background of a terminal, a group of its own could never come to the foreground: it stays in ours.
    let ours = if with_terminal { terminal::our_foreground_group() } else { None };
    let own_group = !with_terminal || ours.is_some();
    // Before there is somebody whom they should reach.
    let signals = if runner.forwards_signals { Signals::catch() } else { Signals::default() };
    let mut child = start(&program, own_group)?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let pid = pid.ok_or(RunError::Read { reason: std::io::Error::from(NotFound).into() })?;
    let group = Group::new(pid, own_group);
    let mut lent = ours.map(|ours| Lent::to(pid, ours));

    let input = match &program.stdin {
        Stdin::Bytes(bytes) => bytes.as_slice(),
        Stdin::Null | Stdin::Terminal => &[],
    };
    let collected = tokio::select! {
        collected = collect(&mut child, input, program.limits, &runner.stderr, answer) => collected,
        never = stop_together(lent.as_ref()) => match never {},
        never = signals.pass_on(&group) => match never {},
    };
    match collected {
        Ok(collected) => {
            let (stdout, stderr) = (collected.stdout, collected.stderr);
            let ended = match collected.status {
                Outcome::Ended(status) => ended(status),
                Outcome::Alive(streams) => {
                    let process = Process::attend(child, group, streams, runner.stderr.clone());
                    return Ok(Started::Alive { answer: Answer { stdout, stderr }, process });
                }
            };
            group.release();
            if let (Some(lent), Ended::Exited(_)) = (&mut lent, ended) {
                lent.keep_settings();
            }
            Ok(Started::Ended(Finished { ended, stdout, stderr }))
        }
        Err(error) => {
            end(&mut child, group).await;
            Err(error)
        }
    }
}

async fn stop_together(lent: Option<&Lent>) -> std::convert::Infallible {
    match lent {
        Some(lent) => lent.stop_together().await,
        None => std::future::pending().await,
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts programs")]
fn start(program: &Program, own_group: bool) -> Result<Child, RunError> {
    fits(program)?;
    let (stdin, stderr) = match program.stdin {
        Stdin::Null => (Stdio::null(), Stdio::piped()),
        Stdin::Bytes(_) => (Stdio::piped(), Stdio::piped()),
        Stdin::Terminal => (Stdio::inherit(), Stdio::inherit()),
    };
    let mut command = Command::new(&program.path);
    command
        .args(&program.args)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(stderr);
    if own_group {
        command.process_group(0);
    }
    command.spawn().map_err(|error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::TOOBIG) => RunError::TooMuch { bytes: strings(program).map(|(_, bytes)| bytes).sum() },
        _ => RunError::Start { reason: error.into() },
    })
}

/// Says which string is too long, where the system would say only that something is.
fn fits(program: &Program) -> Result<(), RunError> {
    match strings(program).find(|(_, bytes)| cfg!(target_os = "linux") && *bytes > LONGEST) {
        Some((what, bytes)) => Err(RunError::TooLong { what, bytes, limit: LONGEST }),
        None => Ok(()),
    }
}

/// What is passed to the program, with the lengths the system counts: `NAME=value` and the NUL after it.
fn strings(program: &Program) -> impl Iterator<Item = (String, usize)> + '_ {
    let args = program.args.iter().enumerate().map(|(index, arg)| (format!("argument {index}"), arg.len() + 1));
    let env = program
        .env
        .iter()
        .map(|(name, value)| (format!("the variable {}", name.to_string_lossy()), name.len() + value.len() + 2));
    args.chain(env)
}

/// First politely, so that a program can put the terminal in order; then not. Leaves no zombie.
pub(super) async fn end(child: &mut Child, group: Group) {
    group.terminate();
    let _ = tokio::time::timeout(TIDY_UP, child.wait()).await;
    group.kill();
    let _ = child.wait().await;
    group.release();
}

pub(super) fn ended(status: ExitStatus) -> Ended {
    match status.code() {
        Some(code) => Ended::Exited(code),
        None => Ended::Killed(status.signal().unwrap_or_default()),
    }
}
