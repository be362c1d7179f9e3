//! Real providers in real processes: what they are asked, what becomes of their answers, and what they may do to us.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod accounts;
mod bad_input;
mod caching;
mod configs;
mod decoding;
mod sharing;
mod telling;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_core::{FixedEnv, ManualClock, NoObserver, Runner, StderrSink, SystemRunner, World};
use credlet_image::{Asking, ImageCredentials, LookUp, Options};
use credlet_testkit::plugin::Plugin;
use tempfile::TempDir;

/// Longer than anything here takes, so that a hang fails a test instead of stopping it.
const HANG: Duration = Duration::from_secs(60);

/// A node: a configuration, a directory of binaries, and a clock that stands still.
struct Node {
    dir: TempDir,
    clock: ManualClock,
    plugins: Vec<(String, Plugin)>,
    yaml: String,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        let yaml = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n".to_owned();
        let clock = ManualClock::new("2030-01-02T03:04:05Z".parse().unwrap());
        Self { dir, clock, plugins: Vec::new(), yaml }
    }

    /// A provider for `*.io` and `*.*.io` that remembers answers for an hour, with further lines of configuration.
    fn provider(self, name: &str, plugin: Plugin, more: &str) -> Self {
        self.provider_for(name, plugin, &["*.io", "*.*.io"], more)
    }

    fn provider_for(mut self, name: &str, plugin: Plugin, patterns: &[&str], more: &str) -> Self {
        plugin.install(&self.bin_dir(), name);
        let patterns: String = patterns.iter().map(|pattern| format!("  - \"{pattern}\"\n")).collect();
        let lifetime = if more.contains("defaultCacheDuration") { "" } else { "  defaultCacheDuration: 1h\n" };
        self.yaml += &format!(
            "- name: {name}\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n{lifetime}  matchImages:\n{patterns}{more}"
        );
        self.plugins.push((name.to_owned(), plugin));
        self.write();
        self
    }

    fn write(&self) {
        fs::write(self.config(), &self.yaml).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    fn bin_dir(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    fn world(&self) -> World {
        World {
            clock: Arc::new(self.clock.clone()),
            env: Arc::new(FixedEnv::new([("HOME", "/nowhere"), ("SYSTEM", "1111")])),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)) as Arc<dyn Runner>,
            observer: Arc::new(NoObserver),
        }
    }

    fn load(&self) -> Arc<ImageCredentials> {
        self.load_with(Options::default())
    }

    fn load_with(&self, options: Options) -> Arc<ImageCredentials> {
        let loaded = ImageCredentials::load(self.config(), self.bin_dir(), options, self.world());
        Arc::new(loaded.unwrap_or_else(|error| panic!("{:?}", error.mistakes)))
    }

    fn plugin(&self, name: &str) -> &Plugin {
        &self.plugins.iter().find(|(other, _)| other == name).unwrap().1
    }
}

/// A complete answer in v1.
fn answer(scope: &str, lifetime: Option<&str>, auths: &[(&str, &str, &str)]) -> String {
    let auth: serde_json::Map<_, _> = auths
        .iter()
        .map(|(key, name, password)| ((*key).to_owned(), serde_json::json!({"username": name, "password": password})))
        .collect();
    let mut answer = serde_json::json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": scope,
        "auth": auth,
    });
    if let Some(lifetime) = lifetime {
        answer["cacheDuration"] = lifetime.into();
    }
    answer.to_string()
}

fn answering(scope: &str, lifetime: Option<&str>) -> Plugin {
    Plugin::new().prints(answer(scope, lifetime, &[("*.io", "user", "pass"), ("*.*.io", "user", "pass")]))
}

async fn get(credentials: &ImageCredentials, image: &str) -> LookUp {
    ask(credentials, image, &Asking { near_misses: true, ..Asking::default() }).await
}

async fn ask(credentials: &ImageCredentials, image: &str, asking: &Asking<'_>) -> LookUp {
    let look_up = tokio::time::timeout(HANG, credentials.look_up(image, asking));
    look_up.await.expect("a look-up must not hang").unwrap()
}

fn names(look_up: &LookUp) -> Vec<&str> {
    look_up.credentials.iter().map(|found| found.auth.username.as_str()).collect()
}

fn passwords(look_up: &LookUp) -> Vec<&str> {
    look_up.credentials.iter().map(|found| found.auth.password.expose()).collect()
}
