use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::system::ended;
use super::{Ended, OsError};

/// Starts a program that goes on when we have ended, with our environment and these variables, and without any of our
/// streams. Nobody waits for it and nobody hears of it, so it must limit itself; and it is still in our session, which
/// it should leave with `setsid`.
///
/// # Errors
/// When it cannot be started.
#[expect(clippy::disallowed_methods, reason = "this module starts programs")]
pub fn start_detached<'a>(
    path: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    env: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), OsError> {
    let mut command = Command::new(path);
    command.args(args).envs(env).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop).map_err(OsError::from)
}

/// The same, for a program that says on standard output how its start went, and then lets go of it. `env` is all that it
/// gets to see of an environment.
///
/// # Errors
/// When it cannot be started.
#[expect(clippy::disallowed_methods, reason = "this module starts programs")]
pub fn start_reporting(
    path: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Starting, OsError> {
    let mut command = Command::new(path);
    command.args(args).env_clear().envs(env).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map(Starting).map_err(OsError::from)
}

/// Closes all files but the standard streams: what we open is closed in our children by itself, but whoever started us may
/// have let something slip. To be called first of all, when nothing here has opened a file yet.
///
/// # Errors
/// When the system does not say which are open.
pub fn close_inherited() -> io::Result<()> {
    // All numbers before the first is closed: the list is itself an open file.
    let open: Vec<i32> = fs::read_dir("/dev/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        // That of the list is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// A program that is about to say how its start went. Dropping this lets it go on.
#[derive(Debug)]
pub struct Starting(Child);

impl Starting {
    /// What it says, to be read to its end. `None`: taken already.
    pub fn report(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// How it ended. `None`: it has not, as far as the system knows.
    pub fn ended(&mut self) -> Option<Ended> {
        self.0.try_wait().ok().flatten().map(ended)
    }

    /// Ends it: it took too long.
    pub fn give_up(mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
