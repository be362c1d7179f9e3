//! A home directory, an isolated environment for programs, and a leak check.
//!
//! ```
//! use credlet_testkit::sandbox::Sandbox;
//!
//! let sandbox = Sandbox::new();
//! sandbox.file(".config/name", "ada");
//! let output = sandbox.run(sandbox.command("/bin/sh", &["-c", "cat \"$HOME/.config/name\""]));
//! assert_eq!(output.data(), "ada");
//! ```

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::logs::LeakCheck;

/// A temporary home directory, removed on drop, with a leak check for the secrets of the test.
///
/// Test suites wrap it in a type with the commands and files of their subject.
#[derive(Debug)]
pub struct Sandbox {
    dir: TempDir,
    /// Creates the secrets of the test, and fails it on drop if one of them leaked.
    pub watch: LeakCheck,
}

impl Sandbox {
    /// Creates an empty directory.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory"), watch: LeakCheck::new() }
    }

    /// Creates an empty directory that only this user can access, as a runtime directory must be.
    pub fn private() -> Self {
        let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir();
        Self { dir: dir.expect("a temporary directory"), watch: LeakCheck::new() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The path of a file in the directory.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir().join(name)
    }

    /// Writes a file and creates its parent directories. Returns its path.
    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file in the directory")).expect("the parent directory");
        fs::write(&path, content).expect("the file");
        path
    }

    /// Writes an executable shell script. Returns its path.
    pub fn script(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.file(name, format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("the mode");
        path
    }

    /// A command with no other environment than the home directory and `PATH`, and without input.
    pub fn command(&self, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env_clear().env("HOME", self.dir()).env("PATH", "/usr/bin:/bin");
        command.env("CREDLET_TEST_ACCOUNT_HOME", self.dir()).stdin(Stdio::null());
        command
    }

    /// Runs a command, and checks that standard error contains no secret.
    pub fn run(&self, mut command: Command) -> CommandOutput {
        self.ran(command.output().expect("failed to start the command"))
    }

    /// Runs a command with this standard input, of which it may read any part.
    pub fn run_with_input(&self, mut command: Command, input: &[u8]) -> CommandOutput {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("failed to start the command");
        if let Err(error) = child.stdin.take().expect("a pipe").write_all(input) {
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
        }
        self.ran(child.wait_with_output().expect("the output of the command"))
    }

    /// Checks that standard error contains no secret.
    pub fn ran(&self, output: Output) -> CommandOutput {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let (code, stdout, stderr) = (output.status.code(), text(output.stdout), text(output.stderr));
        self.watch.text(&stderr);
        CommandOutput { code, stdout, stderr }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

/// The result of a command.
#[derive(Debug)]
#[non_exhaustive]
pub struct CommandOutput {
    /// The exit code; `None` if it was killed by a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// Returns standard output. Panics unless the command succeeded without output on standard error.
    #[track_caller]
    pub fn data(&self) -> &str {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        &self.stdout
    }

    /// Returns standard error. Panics unless the command failed with this code and without output on standard output.
    #[track_caller]
    pub fn failure(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        &self.stderr
    }

    /// Returns standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns the token of the printed `ExecCredential`. Panics unless the command succeeded.
    #[track_caller]
    pub fn token(&self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.json()["status"]["token"].as_str().expect("a token").to_owned()
    }
}
