use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{OsError, ProcessExit};

/// Starts a process that outlives this one. It inherits the environment plus `env`; its standard streams are the null
/// device. The first item of `argv` is the program name (`argv[0]`).
///
/// The process is not waited for and has no time limit. It stays in this session until it calls `setsid`.
///
/// # Errors
/// Fails if the process cannot be started.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn spawn_detached<'a>(
    path: &Path,
    argv: impl IntoIterator<Item = impl AsRef<OsStr>>,
    env: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), OsError> {
    let mut command = Command::new(path);
    let mut args = argv.into_iter();
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    command.args(args).envs(env).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop).map_err(OsError::from)
}

/// Starts a daemon that reports the result of its start on standard output and then closes it. `env` is the complete
/// environment; standard input and standard error are the null device.
///
/// # Errors
/// Fails if the process cannot be started.
#[expect(clippy::disallowed_methods, reason = "this module starts processes")]
pub fn spawn_daemon(
    path: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<SpawnedDaemon, OsError> {
    let mut command = Command::new(path);
    command.args(args).env_clear().envs(env).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map(SpawnedDaemon).map_err(OsError::from)
}

/// Closes all file descriptors except the standard streams. Files that Rust opens are close-on-exec, but the parent
/// process may have leaked others. Call this before anything else opens a file.
///
/// # Errors
/// Fails if `/dev/fd` cannot be read.
pub fn close_inherited_fds() -> io::Result<()> {
    // Collected first: the directory itself is an open file, which is closed by the time the descriptors are.
    let open: Vec<i32> = fs::read_dir("/dev/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    close_fds(open);
    Ok(())
}

/// Returns the file descriptors above the standard streams that child processes inherit. Files that Rust opens are
/// close-on-exec; those of a loaded library may not be. Returns an empty list on systems other than Linux and macOS, and without
/// `/proc` on Linux.
pub fn inheritable_fds() -> Vec<i32> {
    // `/dev/fd` of macOS lists the descriptors of the process that reads it.
    let dir = if cfg!(target_os = "macos") { "/dev/fd" } else { "/proc/self/fd" };
    let open = fs::read_dir(dir).into_iter().flatten().flatten();
    let fds = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    fds.filter(|fd| *fd > 2 && is_inheritable(*fd) == Some(true)).collect()
}

#[cfg(target_os = "macos")]
fn is_inheritable(fd: i32) -> Option<bool> {
    crate::macos::is_fd_inheritable(fd)
}

#[cfg(not(target_os = "macos"))]
fn is_inheritable(fd: i32) -> Option<bool> {
    // The line `flags:` has the octal flags of `open`, with `O_CLOEXEC` if it is set.
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    Some(flags & rustix::fs::OFlags::CLOEXEC.bits() == 0)
}

/// Closes these file descriptors, except the standard streams. Descriptors that are not open are ignored.
pub fn close_fds(fds: impl IntoIterator<Item = i32>) {
    for fd in fds.into_iter().filter(|fd| *fd > 2) {
        let _ = nix::unistd::close(fd);
    }
}

/// A daemon that has not reported the result of its start yet. It keeps running when this is dropped.
#[derive(Debug)]
pub struct SpawnedDaemon(Child);

impl SpawnedDaemon {
    /// Returns standard output, which carries the report. `None` after the first call.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Returns how the daemon exited, or `None` while it is running.
    pub fn try_wait(&mut self) -> Option<ProcessExit> {
        self.0.try_wait().ok().flatten().map(ProcessExit::from)
    }

    /// Kills and reaps the daemon.
    pub fn kill(mut self) {
        // Fails if it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn lists_fds_without_close_on_exec() {
        let [private, leaked] = [(); 2].map(|()| fs::File::open("/dev/null").unwrap());
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let found = inheritable_fds();
        assert!(found.contains(&leaked.as_raw_fd()) && !found.contains(&private.as_raw_fd()), "{found:?}");
    }
}
