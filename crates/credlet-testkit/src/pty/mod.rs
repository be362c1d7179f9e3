//! A pseudo-terminal to run a program in, for prompts, Ctrl-C and job control.
//!
//! ```
//! use credlet_testkit::pty::Pty;
//! use std::time::Duration;
//!
//! let mut pty = Pty::spawn("/bin/cat", [], []);
//! pty.send(b"hello\n");
//! pty.read_until("hello", Duration::from_secs(10));
//! pty.send(b"\x04"); // Ctrl-D: end of file
//! assert!(pty.wait().success());
//! ```

mod enter;
mod screen;
#[cfg(test)]
mod tests;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};

pub(crate) use enter::enter_if_asked;
use screen::Screen;

use crate::plugin;
use crate::signals::heed_terminals;

/// A program and its pseudo-terminal. The program leads a new session with this controlling terminal; stdin, stdout and stderr are
/// the terminal. Dropping it kills the program and the foreground process group.
#[derive(Debug)]
pub struct Pty {
    master: File,
    name: CString,
    child: Child,
    screen: Arc<Screen>,
}

impl Pty {
    /// Starts a program in a new terminal of 24 by 80, with the test's environment and `envs`.
    pub fn spawn<'a>(
        program: impl AsRef<Path>,
        args: impl IntoIterator<Item = &'a str>,
        envs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut command = Command::new(plugin::program());
        command.arg(program.as_ref()).args(args).envs(envs);
        Self::start(command)
    }

    /// Runs one test of this binary in a new terminal, by its full path (`module::tests::name`). The test calls [`inside`] to find
    /// out where it runs:
    ///
    /// ```no_run
    /// # use credlet_testkit::pty::{self, Pty};
    /// fn prompts_for_a_password() {
    ///     if !pty::inside() {
    ///         let mut pty = Pty::rerun("prompts_for_a_password", []);
    ///         // … drive the terminal …
    ///         assert!(pty.wait().success());
    ///         return;
    ///     }
    ///     // … the part that runs in the terminal …
    /// }
    /// ```
    pub fn rerun<'a>(test: &'a str, envs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let this_binary = std::env::current_exe().expect("the path of the test binary");
        let envs = envs.into_iter().chain([(enter::INSIDE, "1")]);
        // Includes ignored tests, which may be meant for a terminal only.
        Self::spawn(this_binary, ["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"], envs)
    }

    fn start(mut command: Command) -> Self {
        let master = open_master().expect("a pseudo terminal");
        rustix::pty::grantpt(&master).expect("its rights");
        rustix::pty::unlockpt(&master).expect("it to be unlocked");
        let name = rustix::pty::ptsname(&master, Vec::new()).expect("its name");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        // The child opens the other side; until then a read would fail with a hang-up.
        let other_side = open_other_side(&name);

        heed_terminals();
        let child = command
            .env(enter::TERMINAL, name.to_str().expect("a plain path"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program to start");
        let screen = Screen::of(File::from(master.try_clone().expect("a second handle")), other_side);
        Self { master: master.into(), name, child, screen }
    }

    /// Sends input as if it were typed. Fails the test if the terminal is closed.
    pub fn send(&mut self, bytes: &[u8]) {
        self.master.write_all(bytes).expect("the terminal to be open");
    }

    /// Waits for this text after the match of the last call, and returns the output up to its end. Fails the test after the limit,
    /// or when the program exits without printing it.
    pub fn read_until(&mut self, text: &str, limit: Duration) -> String {
        self.screen.read_until(text, limit)
    }

    /// Returns all output so far.
    pub fn screen(&self) -> String {
        self.screen.text()
    }

    /// The program's process id, which is also its session id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the foreground process group.
    pub fn foreground_group(&self) -> Option<i32> {
        tcgetpgrp(&self.master).ok().map(Pid::as_raw_pid)
    }

    /// Returns whether echo is on.
    pub fn echoes(&self) -> bool {
        let attributes = rustix::termios::tcgetattr(&self.master).expect("the terminal's settings");
        attributes.local_modes.contains(rustix::termios::LocalModes::ECHO)
    }

    /// Waits until the program has exited, not for its children. [`screen`](Self::screen) is complete then.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().expect("the program's status");
        // The exit of the session leader hangs up the terminal, this handle included, so a new one is opened.
        let other_side = open_other_side(&self.name);
        self.screen.end_behind_what_was_written(other_side.into());
        status
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let foreground = tcgetpgrp(&self.master).ok();
            for group in [Some(Pid::from_child(&self.child)), foreground].into_iter().flatten() {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.screen.let_go_of_other_side();
    }
}

/// Returns whether this process runs in the terminal of a [`Pty::rerun`].
pub fn inside() -> bool {
    std::env::var_os(enter::INSIDE).is_some()
}

#[cfg(not(target_os = "macos"))]
fn open_master() -> rustix::io::Result<OwnedFd> {
    rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
}

/// `posix_openpt` does not accept `O_CLOEXEC` on macOS, so a process that another thread starts meanwhile may inherit it.
#[cfg(target_os = "macos")]
fn open_master() -> rustix::io::Result<OwnedFd> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    Ok(master)
}

fn open_other_side(name: &CStr) -> OwnedFd {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("the other side")
}
