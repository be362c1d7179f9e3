//! A home directory and helpers that run the cache.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use credlet_platform::dirs::CACHE_IN_HOME;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use tempfile::TempDir;

pub(crate) const V1: &str = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":false}}\n";

/// A temporary home directory. Checks that no secret is printed.
pub(crate) struct Sandbox {
    dir: TempDir,
    pub(crate) watch: LeakCheck,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), watch: LeakCheck::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn entries(&self) -> PathBuf {
        self.path().join(CACHE_IN_HOME).join("credlet/exec")
    }

    /// The files of entries, without `.lock`, `.calls` and others.
    pub(crate) fn keys(&self) -> Vec<PathBuf> {
        keys_in(&self.entries())
    }

    pub(crate) fn entry(&self) -> PathBuf {
        let keys = self.keys();
        assert_eq!(keys.len(), 1, "{keys:?}");
        keys.into_iter().next().unwrap()
    }

    /// Writes a file in the home directory.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A command with these arguments and a minimal environment.
    #[expect(clippy::disallowed_methods, reason = "a test plays the client")]
    pub(crate) fn credlet(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_credlet"));
        command.args(args).env_clear().env("HOME", self.path()).env("PATH", "/usr/bin:/bin");
        command.env("CREDLET_TEST_ACCOUNT_HOME", self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A call of the cache around `plugin` with a v1 request.
    pub(crate) fn cache(&self, options: &[&str], plugin: &TestPlugin) -> Command {
        let mut command = self.credlet(&["cache"]);
        command.args(options).arg("--").arg(plugin.command()).args(plugin.args());
        command.env("KUBERNETES_EXEC_INFO", V1);
        command
    }

    /// Runs a command, and checks that standard error contains no secret.
    pub(crate) fn run(&self, mut command: Command) -> CompletedRun {
        self.ran(command.output().unwrap())
    }

    pub(crate) fn ran(&self, output: Output) -> CompletedRun {
        let stderr = String::from_utf8(output.stderr).unwrap();
        self.watch.text(&stderr);
        CompletedRun { code: output.status.code(), stdout: String::from_utf8(output.stdout).unwrap(), stderr }
    }

    /// Calls the cache and returns the token.
    pub(crate) fn token(&self, options: &[&str], plugin: &TestPlugin) -> String {
        self.run(self.cache(options, plugin)).token()
    }
}

/// The files of entries in a directory.
pub(crate) fn keys_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(dir) else { return Vec::new() };
    let files = files.map(|file| file.unwrap().path());
    files.filter(|path| path.file_name().unwrap().len() == 64).collect()
}

#[derive(Debug)]
pub(crate) struct CompletedRun {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CompletedRun {
    pub(crate) fn token(&self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.json()["status"]["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Reads standard error of a child until it contains this text.
pub(crate) fn wait_for_stderr(child: &mut Child, text: &str) -> String {
    let stderr = child.stderr.as_mut().unwrap();
    let mut received = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&received).contains(text) {
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "only {}", String::from_utf8_lossy(&received));
        received.push(byte[0]);
    }
    String::from_utf8(received).unwrap()
}

/// Writes a shell script to be used as a plugin.
pub(crate) fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
