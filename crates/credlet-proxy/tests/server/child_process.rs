//! Roles that the test program of this package (`tests/bin/test-plugin.rs`) plays in child processes.

#![expect(clippy::disallowed_methods, reason = "a test starts programs")]

use std::path::Path;
use std::process::{Child, Command, Stdio as Pipe};

/// Makes cargo rebuild this test program after an edit of the other one, which is how `plugin::program` notices the edit.
const _: &str = include_str!("../bin/test-plugin.rs");

/// A role to run in a child process.
pub(crate) struct ChildRole(Command);

impl ChildRole {
    pub(crate) fn new(name: &str) -> Self {
        Self::of(credlet_testkit::plugin::program(), name)
    }

    /// Runs the role in a copy of the program.
    pub(crate) fn of(program: &Path, name: &str) -> Self {
        let mut command = Command::new(program);
        command.args(["--role", name]).stdin(Pipe::null()).stdout(Pipe::piped()).stderr(Pipe::inherit());
        Self(command)
    }

    pub(crate) fn with(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn by_user(mut self, uid: u32) -> Self {
        std::os::unix::process::CommandExt::uid(&mut self.0, uid);
        self
    }

    pub(crate) fn play(mut self) -> Child {
        self.0.spawn().unwrap()
    }
}

/// Copies the program. A child process makes the copy: while this process has the file open for writing, a program
/// that another test starts would inherit the descriptor, and executing the copy would fail with `ETXTBSY`.
pub(crate) fn copy_of_program(to: &Path) {
    let copied = Command::new("cp").arg(credlet_testkit::plugin::program()).arg(to).status().unwrap();
    assert!(copied.success());
}
