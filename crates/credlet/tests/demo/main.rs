//! Tests of `credlet demo`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod plain;
mod serve;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory for temporary files, to find files that the demo does not remove.
struct DemoSandbox(tempfile::TempDir);

impl DemoSandbox {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn credlet(&self, args: &[&str]) -> Command {
        #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
        let mut command = Command::new(env!("CARGO_BIN_EXE_credlet"));
        command.args(args).env("TMPDIR", self.path()).env("HOME", self.path()).env_remove("KUBECONFIG");
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> (Output, String, String) {
        let output = self.credlet(args).output().unwrap();
        let (stdout, stderr) = (output.stdout.clone(), output.stderr.clone());
        (output, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    fn leftovers(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// Fails if the text contains a JWT or a PEM key.
#[track_caller]
fn assert_no_secret(text: &str) {
    for sign in ["eyJ", "PRIVATE KEY", "ZXlK"] {
        assert!(!text.contains(sign), "{sign} in {text}");
    }
}
