//! The child process: acquires the controlling terminal, then executes the program.
//!
//! A closure between fork and exec would need unsafe code, so the program of the test plugin is started as an intermediate process.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags};

/// Variable with the path of the terminal.
pub(super) const TERMINAL: &str = "CREDLET_TESTKIT_PTY";

/// Set inside a terminal that runs a test.
pub(super) const INSIDE: &str = "CREDLET_TESTKIT_INSIDE_PTY";

/// If this process was started as the intermediate process, executes the program in the terminal and does not return.
pub(crate) fn enter_if_asked() {
    if let Some(terminal) = env::var_os(TERMINAL) {
        let error = enter(&terminal).err().unwrap_or_else(become_the_program);
        let _ = writeln!(io::stderr(), "credlet-testkit: cannot run in the terminal: {error}");
        exit_unstarted();
    }
}

fn enter(terminal: &std::ffi::OsStr) -> io::Result<()> {
    rustix::process::setsid()?;
    let terminal = rustix::fs::open(terminal, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // On Linux a session leader without a terminal acquires it by opening it; other systems need TIOCSCTTY.
    rustix::process::ioctl_tiocsctty(&terminal)?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)?;
    Ok(())
}

fn become_the_program() -> io::Error {
    let mut words = env::args_os().skip(1);
    match words.next() {
        Some(program) => Command::new(program).args(words).env_remove(TERMINAL).exec(),
        None => io::ErrorKind::InvalidInput.into(),
    }
}

#[expect(clippy::exit, reason = "the process has no other purpose")]
fn exit_unstarted() -> ! {
    std::process::exit(127)
}
