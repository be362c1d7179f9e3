use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal};

use super::{OsError, ProcessExit};

/// Starts a process that inherits standard streams, terminal and environment, with `env` added to the environment.
///
/// # Errors
/// Fails if the process cannot be started.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn spawn_foreground<'a>(
    path: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    env: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
) -> Result<ForegroundChild, OsError> {
    let mut command = Command::new(path);
    command.args(args).envs(env);
    command.spawn().map(ForegroundChild).map_err(OsError::from)
}

/// A child process that shares the streams and the terminal of this process. It keeps running when this is dropped.
#[derive(Debug)]
pub struct ForegroundChild(Child);

impl ForegroundChild {
    /// Returns the process id for [`terminate_process`] and [`send_hangup`].
    pub fn pid(&self) -> Option<Pid> {
        i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
    }

    /// Waits until the process exits. Blocks the thread.
    ///
    /// # Errors
    /// Fails if the process was already reaped.
    pub fn wait(mut self) -> Result<ProcessExit, OsError> {
        self.0.wait().map(ProcessExit::from).map_err(OsError::from)
    }
}

/// Replaces this process by the program at `path` (`execve`). `argv` includes the program name; `env` is the complete
/// environment. Returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn exec_replace(
    path: &Path,
    argv: &[impl AsRef<OsStr>],
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> OsError {
    let mut command = Command::new(path);
    if let Some((name, args)) = argv.split_first() {
        command.arg0(name).args(args);
    }
    command.env_clear().envs(env).exec().into()
}

/// Sends SIGTERM. Does nothing if the process has exited.
pub fn terminate_process(pid: Pid) {
    let _ = rustix::process::kill_process(pid, Signal::TERM);
}

/// Sends SIGHUP. Does nothing if the process has exited.
pub fn send_hangup(pid: Pid) {
    let _ = rustix::process::kill_process(pid, Signal::HUP);
}
