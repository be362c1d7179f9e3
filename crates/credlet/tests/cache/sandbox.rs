//! A home directory and helpers that run the cache.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use credlet_platform::dirs::CACHE_IN_HOME;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::sandbox::Sandbox;

pub(crate) const V1: &str = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":false}}\n";

/// A home directory and calls of the cache.
pub(crate) struct CacheSandbox(Sandbox);

impl std::ops::Deref for CacheSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.0
    }
}

impl CacheSandbox {
    pub(crate) fn new() -> Self {
        Self(Sandbox::new())
    }

    pub(crate) fn entries(&self) -> PathBuf {
        self.path(CACHE_IN_HOME).join("credlet/exec")
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

    /// A command with these arguments and a minimal environment.
    pub(crate) fn credlet(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_credlet"), args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A call of the cache around `plugin` with a v1 request.
    pub(crate) fn cache(&self, options: &[&str], plugin: &TestPlugin) -> Command {
        let mut command = self.credlet(&["cache"]);
        command.args(options).arg("--").arg(plugin.command()).args(plugin.args());
        command.env("KUBERNETES_EXEC_INFO", V1);
        command
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

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
