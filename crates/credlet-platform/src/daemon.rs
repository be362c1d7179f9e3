//! A process that runs as a daemon: setup, standard streams, limit on open files and shutdown signals.

use std::fs::File;
use std::io;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};
use tokio::signal::unix::SignalKind;

use crate::hardening;
use crate::signals::signal;

/// Limit on open files. The hard limit may be a billion in containers, and child processes inherit the limit; some
/// programs close every descriptor up to it.
const MAX_OPEN_FILES: u64 = 1 << 16;

/// Prepares this process to run as a daemon. It leaves the session and the working directory, disables core dumps, and
/// prevents other processes of this user from attaching to it or reading its memory. New files are private. The limit
/// on open files is raised up to 65,536. Call it before there are threads or secrets.
///
/// # Errors
/// If a system call fails. The process must not load keys then.
pub fn harden_process() -> io::Result<()> {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    hardening::protect_memory_permanently()?;
    std::env::set_current_dir("/")?;
    crate::process::leave_session();
    raise_open_file_limit();
    Ok(())
}

/// The default limit of 1024 exists for `select`. Each client needs one descriptor and often another to the API server;
/// without free descriptors even the control socket fails.
fn raise_open_file_limit() {
    let found = rustix::process::getrlimit(Resource::Nofile);
    let target = found.maximum.unwrap_or(MAX_OPEN_FILES).min(MAX_OPEN_FILES);
    if found.current.is_some_and(|current| current < target) {
        // A lower limit only means fewer connections.
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(target), ..found });
    }
}

/// Returns the number of files that this process may have open. `u64::MAX` means unlimited.
pub fn open_file_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns when the process is asked to exit, by SIGTERM or SIGINT, which no longer terminate it from the first poll on. Pending
/// forever if the handlers cannot be installed.
pub async fn shutdown_signal() {
    let caught =
        signal(SignalKind::terminate()).and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
    let Ok((mut terminate, mut interrupt)) = caught else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Standard streams that can be redirected to `/dev/null`.
#[derive(Debug)]
pub struct DetachableStdio(File);

impl DetachableStdio {
    /// Opens `/dev/null`, so that [`detach`](Self::detach) is unlikely to fail.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn prepare() -> io::Result<Self> {
        File::options().read(true).write(true).open("/dev/null").map(Self)
    }

    /// Redirects stdin, stdout and stderr to `/dev/null`. Otherwise a client that reads the plugin's output until EOF
    /// would wait for the daemon, and so would `kubectl … 2>&1 | less`.
    ///
    /// # Errors
    /// If `dup2` fails.
    pub fn detach(self) -> io::Result<()> {
        rustix::stdio::dup2_stdin(&self.0)?;
        rustix::stdio::dup2_stdout(&self.0)?;
        rustix::stdio::dup2_stderr(&self.0)?;
        Ok(())
    }
}
