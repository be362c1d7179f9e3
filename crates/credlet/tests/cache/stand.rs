//! A user with a home of their own, who runs the cache.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use tempfile::TempDir;

pub(crate) const V1: &str = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":false}}\n";

/// A home, and the way to the command from there.
pub(crate) struct Home {
    dir: TempDir,
    pub(crate) watch: Watch,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), watch: Watch::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn entries(&self) -> PathBuf {
        self.path().join(".cache/credlet/exec")
    }

    /// The files of entries, without those beside them.
    pub(crate) fn keys(&self) -> Vec<PathBuf> {
        let Ok(files) = fs::read_dir(self.entries()) else { return Vec::new() };
        let files = files.map(|file| file.unwrap().path());
        files.filter(|path| path.file_name().unwrap().len() == 64).collect()
    }

    pub(crate) fn entry(&self) -> PathBuf {
        let keys = self.keys();
        assert_eq!(keys.len(), 1, "{keys:?}");
        keys.into_iter().next().unwrap()
    }

    /// A file in the home.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The command with these arguments, in an environment with nothing but the home in it.
    #[expect(clippy::disallowed_methods, reason = "a test plays the client")]
    pub(crate) fn credlet(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_credlet"));
        command.args(args).env_clear().env("HOME", self.path()).env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The cache before a plugin, asked for v1.
    pub(crate) fn cache(&self, options: &[&str], plugin: &Plugin) -> Command {
        let mut command = self.credlet(&["cache"]);
        command.args(options).arg("--").arg(plugin.command()).args(plugin.args());
        command.env("KUBERNETES_EXEC_INFO", V1);
        command
    }

    /// Runs it to its end, and sees that no secret is on standard error.
    pub(crate) fn run(&self, mut command: Command) -> Ran {
        self.ran(command.output().unwrap())
    }

    pub(crate) fn ran(&self, output: Output) -> Ran {
        let stderr = String::from_utf8(output.stderr).unwrap();
        self.watch.text(&stderr);
        Ran { code: output.status.code(), stdout: String::from_utf8(output.stdout).unwrap(), stderr }
    }

    /// Calls the cache, and gives the token.
    pub(crate) fn token(&self, options: &[&str], plugin: &Plugin) -> String {
        self.run(self.cache(options, plugin)).token()
    }
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn token(&self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.json()["status"]["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Reads standard error of a child until it holds this text.
pub(crate) fn has_said(child: &mut Child, text: &str) -> String {
    let stderr = child.stderr.as_mut().unwrap();
    let mut said = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&said).contains(text) {
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "only {}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    String::from_utf8(said).unwrap()
}

/// A shell script as a plugin.
pub(crate) fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
