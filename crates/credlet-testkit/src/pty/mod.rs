//! A terminal to run a program in, for prompts, Ctrl-C and job control.
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

use crate::signals::heed_terminals;

/// A program and the terminal it runs in: the leader of a session of its own, whose controlling terminal it is, with
/// stdin, stdout and stderr all there. Dropping it kills the program and whoever holds the terminal.
#[derive(Debug)]
pub struct Pty {
    master: File,
    name: CString,
    child: Child,
    screen: Arc<Screen>,
}

impl Pty {
    /// Starts a program in a new terminal of 24 by 80. The environment is that of the test and `envs`.
    pub fn spawn<'a>(
        program: impl AsRef<Path>,
        args: impl IntoIterator<Item = &'a str>,
        envs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the path of the test binary"));
        command.arg(program.as_ref()).args(args).envs(envs);
        Self::start(command)
    }

    /// Runs one test of this very binary in a new terminal, by its full path in the binary (`module::tests::name`).
    /// That test asks [`inside`] which of the two it is:
    ///
    /// ```no_run
    /// # use credlet_testkit::pty::{self, Pty};
    /// fn a_password_is_asked_for() {
    ///     if !pty::inside() {
    ///         let mut pty = Pty::rerun("a_password_is_asked_for", []);
    ///         // … drive the terminal …
    ///         assert!(pty.wait().success());
    ///         return;
    ///     }
    ///     // … what runs in the terminal …
    /// }
    /// ```
    pub fn rerun<'a>(test: &'a str, envs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let this_binary = std::env::current_exe().expect("the path of the test binary");
        let envs = envs.into_iter().chain([(enter::INSIDE, "1")]);
        // Ignored tests too: one that makes sense in a terminal only may be marked so.
        Self::spawn(this_binary, ["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"], envs)
    }

    fn start(mut command: Command) -> Self {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo terminal");
        rustix::pty::grantpt(&master).expect("its rights");
        rustix::pty::unlockpt(&master).expect("it to be unlocked");
        let name = rustix::pty::ptsname(&master, Vec::new()).expect("its name");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        // The other side is opened by the child; until then a read here would fail as if it had hung up already.
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

    /// Types.
    pub fn send(&mut self, bytes: &[u8]) {
        self.master.write_all(bytes).expect("the terminal to be open");
    }

    /// Waits until this text is on the screen, after the text that the last call found, and gives all up to its end.
    /// Fails the test at the limit, or when the program ends without it.
    pub fn read_until(&mut self, text: &str, limit: Duration) -> String {
        self.screen.read_until(text, limit)
    }

    /// All that was shown until now.
    pub fn screen(&self) -> String {
        self.screen.text()
    }

    /// The program's process, which is its session as well.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process group that holds the terminal now.
    pub fn foreground_group(&self) -> Option<i32> {
        tcgetpgrp(&self.master).ok().map(Pid::as_raw_pid)
    }

    /// Whether what is typed is shown.
    pub fn echoes(&self) -> bool {
        let attributes = rustix::termios::tcgetattr(&self.master).expect("the terminal's settings");
        attributes.local_modes.contains(rustix::termios::LocalModes::ECHO)
    }

    /// Waits until the program has ended, whatever it left running. The [`screen`](Self::screen) then has all that the
    /// program printed.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().expect("the program's status");
        // The end of its leader hangs the session up, our own handle included, so a fresh one is needed.
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

/// Whether this process runs in the terminal of a [`Pty::rerun`].
pub fn inside() -> bool {
    std::env::var_os(enter::INSIDE).is_some()
}

fn open_other_side(name: &CStr) -> OwnedFd {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("the other side")
}
