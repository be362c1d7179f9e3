//! The cache with an in-memory keyring. `crates/credlet/tests/cache` tests the command.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use credlet_exec::cache::{CacheInvocation, CacheOptions, CacheWarning};
use credlet_exec::{FixedEnv, NoopObserver, Platform, StderrSink, SystemClock, SystemRunner};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;

use credlet_testkit::keyring::MemoryKeyring;

const V1: &str =
    r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;

struct Sandbox {
    dir: tempfile::TempDir,
    watch: LeakCheck,
    plugin: TestPlugin,
    warnings: Vec<CacheWarning>,
}

impl Sandbox {
    fn new() -> Self {
        let watch = LeakCheck::new();
        let token = watch.secret("token");
        let plugin = TestPlugin::answering(token.expose()).expiring_in(Duration::from_secs(3600));
        Self { dir: tempfile::tempdir().unwrap(), watch, plugin, warnings: Vec::new() }
    }

    fn entries(&self) -> PathBuf {
        self.dir.path().join("chosen/credlet-exec")
    }

    /// All files of the cache and its state.
    fn files(&self) -> Vec<PathBuf> {
        let dirs = [self.entries(), self.dir.path().join(".cache/credlet/state")];
        let files = dirs.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten());
        files.map(|file| file.unwrap().path()).collect()
    }

    fn file(&self, suffix: &str) -> PathBuf {
        let is_it = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.len() == 64 + suffix.len() && name.ends_with(suffix)
        };
        self.files().into_iter().find(is_it).unwrap()
    }

    /// One call of the cache with `--encrypt`.
    async fn call(&mut self, keyring: &Arc<MemoryKeyring>) -> Vec<u8> {
        self.call_with(keyring, true).await
    }

    async fn call_with(&mut self, keyring: &Arc<MemoryKeyring>, encrypt: bool) -> Vec<u8> {
        let command = self.plugin.command().to_str().unwrap().to_owned();
        let dir = self.dir.path().join("chosen");
        let options = CacheOptions { encrypt, cache_dir: Some(dir), ..CacheOptions::new(command, self.plugin.args()) };
        let env: Vec<(String, String)> =
            [("KUBERNETES_EXEC_INFO".to_owned(), V1.to_owned()), ("OS_USERNAME".to_owned(), "prod-admin".to_owned())]
                .into_iter()
                .chain(self.plugin.env())
                .collect();
        let platform = Platform {
            clock: Arc::new(SystemClock::new()),
            env: Arc::new(FixedEnv::new(env).in_dir(Path::new("/")).with_account_home(self.dir.path())),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
            observer: Arc::new(NoopObserver),
        };
        let mut call = CacheInvocation::new(options, &*platform.env).unwrap().with_keyring(Arc::clone(keyring) as _);
        if let Some(hit) = call.hit(platform.clock.now()) {
            return hit.response.to_vec();
        }
        let warnings = &mut self.warnings;
        call.miss(&platform, &mut |warning| warnings.push(warning)).await.stdout.to_vec()
    }
}

#[tokio::test]
async fn encrypted_entry_is_served_and_shows_nothing() {
    let mut sandbox = Sandbox::new();
    let keyring = Arc::new(MemoryKeyring::default());
    let first = sandbox.call(&keyring).await;
    assert!(keyring.key.lock().unwrap().is_some());
    let token: serde_json::Value = serde_json::from_slice(&first).unwrap();
    let token = token["status"]["token"].as_str().unwrap();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, format!("{token}\0\0").as_bytes());
    let digest = credlet_api::hex(digest);
    let expiry = token_expiry(&first);
    let command = sandbox.plugin.command().to_str().unwrap().to_owned();
    for path in sandbox.files() {
        let bytes = fs::read(&path).unwrap();
        sandbox.watch.text(String::from_utf8_lossy(&bytes));
        // Neither a digest of the credential nor its expiry, the plugin, or names of variables.
        for text in [&*digest, &*expiry, &*command, "OS_USERNAME", "prod-admin"] {
            let found = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!found, "{text} in {}", path.display());
        }
    }
    for suffix in ["", ".inputs"] {
        assert!(fs::read(sandbox.file(suffix)).unwrap().starts_with(b"credlet-sealed 1\n"), "{suffix}");
    }
    assert_eq!(sandbox.call(&keyring).await, first);
    assert_eq!((sandbox.plugin.runs(), sandbox.warnings.len()), (1, 0));
    // It cannot be opened with another key.
    sandbox.call(&Arc::new(MemoryKeyring::default())).await;
    assert_eq!(sandbox.plugin.runs(), 2);
}

/// The expiry in milliseconds, as entries store it.
fn token_expiry(response: &[u8]) -> String {
    let response: serde_json::Value = serde_json::from_slice(response).unwrap();
    let expiry: jiff::Timestamp = response["status"]["expirationTimestamp"].as_str().unwrap().parse().unwrap();
    expiry.as_millisecond().to_string()
}

#[tokio::test]
async fn unencrypted_entry_is_not_accepted_with_encrypt() {
    let mut sandbox = Sandbox::new();
    let keyring = Arc::new(MemoryKeyring::default());
    sandbox.call(&keyring).await;
    let sealed = sandbox.file("");
    let sealed_bytes = fs::read(&sealed).unwrap();
    // What `--encrypt` would have stored, in the clear, with everything else right.
    let before = sandbox.files();
    sandbox.call_with(&keyring, false).await;
    assert_eq!(sandbox.plugin.runs(), 2);
    let plain =
        sandbox.files().into_iter().find(|path| !before.contains(path) && path.file_name().unwrap().len() == 64);
    let plain = fs::read_to_string(plain.unwrap()).unwrap();
    let (_, rest) = plain.split_once('\n').unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    let rest = format!("key {}\n{rest}", sealed.file_name().unwrap().to_str().unwrap());
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, rest.as_bytes());
    let sum = credlet_api::hex(sum);
    let forged = format!("credlet-cache 2 {sum}\n{rest}");
    for content in [forged.as_bytes(), &[b"credlet-sealed 1\n", forged.as_bytes()].concat()] {
        fs::write(&sealed, content).unwrap();
        let runs = sandbox.plugin.runs();
        sandbox.call(&keyring).await;
        assert_eq!(sandbox.plugin.runs(), runs + 1);
    }
    // Each changed byte of a sealed entry is noticed, also in its header.
    for at in [0, 8, 15, 16, 20, 40, sealed_bytes.len() - 1] {
        let mut changed = sealed_bytes.clone();
        changed[at] ^= 1;
        fs::write(&sealed, changed).unwrap();
        let runs = sandbox.plugin.runs();
        sandbox.call(&keyring).await;
        assert_eq!(sandbox.plugin.runs(), runs + 1, "byte {at}");
    }
}

#[tokio::test]
async fn sealed_entry_is_not_accepted_without_encrypt() {
    let mut sandbox = Sandbox::new();
    let keyring = Arc::new(MemoryKeyring::default());
    sandbox.call_with(&keyring, false).await;
    let plain = sandbox.file("");
    sandbox.call(&keyring).await;
    let sealed = sandbox.files().into_iter().find(|path| *path != plain && path.file_name().unwrap().len() == 64);
    fs::copy(sealed.unwrap(), &plain).unwrap();
    sandbox.call_with(&keyring, false).await;
    assert_eq!(sandbox.plugin.runs(), 3);
}

#[tokio::test]
async fn without_a_keyring_nothing_is_stored_with_encrypt() {
    let mut sandbox = Sandbox::new();
    let keyring = Arc::new(MemoryKeyring { blocked: true, ..MemoryKeyring::default() });
    for _ in 0..2 {
        assert!(!sandbox.call(&keyring).await.is_empty());
    }
    assert_eq!(sandbox.plugin.runs(), 2);
    for path in sandbox.files() {
        sandbox.watch.text(String::from_utf8_lossy(&fs::read(&path).unwrap()));
        assert_ne!(path.file_name().unwrap().len(), 64, "{}", path.display());
    }
    assert!(matches!(&*sandbox.warnings, [CacheWarning::NotEncrypted(_)]), "once: {:?}", sandbox.warnings);
}

#[tokio::test]
async fn failures_are_encrypted_with_encrypt() {
    for blocked in [false, true] {
        let mut sandbox = Sandbox::new();
        let secret = sandbox.watch.secret("stderr");
        sandbox.plugin = TestPlugin::failing(7, format!("who={}\n", secret.expose()));
        let keyring = Arc::new(MemoryKeyring { blocked, ..MemoryKeyring::default() });
        sandbox.call(&keyring).await;
        let failed = fs::read(sandbox.file(".failed")).unwrap();
        sandbox.watch.text(String::from_utf8_lossy(&failed));
        assert_eq!(failed.starts_with(b"credlet-sealed 1\n"), !blocked);
    }
}
