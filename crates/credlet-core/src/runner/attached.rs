use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal as Kind};

use super::OsError;

/// Starts a program in our place: with our streams, our terminal, our environment and these variables.
///
/// # Errors
/// When it cannot be started.
#[expect(clippy::disallowed_methods, reason = "this module starts programs")]
pub fn start_attached<'a>(
    path: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    env: impl IntoIterator<Item = (&'a str, &'a OsStr)>,
) -> Result<Attached, OsError> {
    let mut command = Command::new(path);
    command.args(args).envs(env);
    command.spawn().map(Attached).map_err(OsError::from)
}

/// A program that runs in our place. Dropping this lets it go on.
#[derive(Debug)]
pub struct Attached(Child);

impl Attached {
    /// Its process, to be told to end. `None`: the system has no such number.
    pub fn pid(&self) -> Option<Pid> {
        i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
    }

    /// Waits for its end. It blocks.
    ///
    /// # Errors
    /// When somebody else has waited for it.
    pub fn wait(mut self) -> Result<ExitStatus, OsError> {
        self.0.wait().map_err(OsError::from)
    }
}

/// Becomes this program, as the same process with the same streams, these words (the first is its name) and no other
/// environment than this. Returns only if that cannot be, and why.
#[expect(clippy::disallowed_methods, reason = "this module starts programs")]
pub fn become_program(
    path: &Path,
    words: &[impl AsRef<OsStr>],
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> OsError {
    let mut command = Command::new(path);
    if let Some((name, args)) = words.split_first() {
        command.arg0(name).args(args);
    }
    command.env_clear().envs(env).exec().into()
}

/// Tells a program to end. One that has ended does not mind.
pub fn ask_to_end(pid: Pid) {
    let _ = rustix::process::kill_process(pid, Kind::TERM);
}

/// Tells a program that its terminal is gone. What it makes of that is up to it.
pub fn hang_up(pid: Pid) {
    let _ = rustix::process::kill_process(pid, Kind::HUP);
}
