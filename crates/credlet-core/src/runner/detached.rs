use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::OsError;

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
