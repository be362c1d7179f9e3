//! Tests with provider processes: requests, responses, caching and misbehaviour.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod accounts;
mod caching;
mod configs;
mod decoding;
mod misbehaving;
mod reporting;
mod sharing;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_exec::{FixedEnv, ManualClock, NoopObserver, Platform, ProcessRunner, StderrSink, SystemRunner};
use credlet_image::{ImageCredentials, LookupRequest, LookupResult, ProviderOptions};
use credlet_testkit::plugin::TestPlugin;
use tempfile::TempDir;

/// Timeout that turns a hang into a failed test.
const HANG: Duration = Duration::from_secs(60);

/// Configuration, directory of binaries and a manual clock.
struct Sandbox {
    dir: TempDir,
    clock: ManualClock,
    plugins: Vec<(String, TestPlugin)>,
    yaml: String,
}

impl Sandbox {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        let yaml = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\nproviders:\n".to_owned();
        let clock = ManualClock::new("2030-01-02T03:04:05Z".parse().unwrap());
        Self { dir, clock, plugins: Vec::new(), yaml }
    }

    /// Adds a provider for `*.io` and `*.*.io` with a cache duration of an hour and more lines of configuration.
    fn provider(self, name: &str, plugin: TestPlugin, more: &str) -> Self {
        self.provider_for(name, plugin, &["*.io", "*.*.io"], more)
    }

    fn provider_for(mut self, name: &str, plugin: TestPlugin, patterns: &[&str], more: &str) -> Self {
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

    fn platform(&self) -> Platform {
        Platform {
            clock: Arc::new(self.clock.clone()),
            env: Arc::new(FixedEnv::new([("HOME", "/nowhere"), ("SYSTEM", "1111")])),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)) as Arc<dyn ProcessRunner>,
            observer: Arc::new(NoopObserver),
        }
    }

    fn load(&self) -> Arc<ImageCredentials> {
        self.load_with(ProviderOptions::default())
    }

    fn load_with(&self, options: ProviderOptions) -> Arc<ImageCredentials> {
        let loaded = ImageCredentials::load(self.config(), self.bin_dir(), options, self.platform());
        Arc::new(loaded.unwrap_or_else(|error| panic!("{:?}", error.problems)))
    }

    fn plugin(&self, name: &str) -> &TestPlugin {
        &self.plugins.iter().find(|(other, _)| other == name).unwrap().1
    }
}

/// A complete response in v1.
fn response_json(scope: &str, lifetime: Option<&str>, auths: &[(&str, &str, &str)]) -> String {
    let auth: serde_json::Map<_, _> = auths
        .iter()
        .map(|(key, name, password)| ((*key).to_owned(), serde_json::json!({"username": name, "password": password})))
        .collect();
    let mut response = serde_json::json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": scope,
        "auth": auth,
    });
    if let Some(lifetime) = lifetime {
        response["cacheDuration"] = lifetime.into();
    }
    response.to_string()
}

fn responding(scope: &str, lifetime: Option<&str>) -> TestPlugin {
    TestPlugin::new().prints(response_json(scope, lifetime, &[("*.io", "user", "pass"), ("*.*.io", "user", "pass")]))
}

async fn get(credentials: &ImageCredentials, image: &str) -> LookupResult {
    look_up_with(credentials, image, &LookupRequest { near_misses: true, ..LookupRequest::default() }).await
}

async fn look_up_with(credentials: &ImageCredentials, image: &str, request: &LookupRequest<'_>) -> LookupResult {
    let look_up = tokio::time::timeout(HANG, credentials.look_up(image, request));
    look_up.await.expect("a look-up must not hang").unwrap()
}

fn names(look_up: &LookupResult) -> Vec<&str> {
    look_up.credentials.iter().map(|found| found.auth.username.as_str()).collect()
}

fn passwords(look_up: &LookupResult) -> Vec<&str> {
    look_up.credentials.iter().map(|found| found.auth.password.expose()).collect()
}
