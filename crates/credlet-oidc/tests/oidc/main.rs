//! Logins with a fake browser and a fake issuer on loopback.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
mod device_code;
mod interference;
mod login;
mod refresh;
mod rejection;
mod storage;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use credlet_api::exec::ExecCredentialStatus;
use credlet_exec::{Clock, FixedEnv, NoopObserver, Platform, SystemClock};
use credlet_oidc::{LoginRequest, OidcError, OidcOptions, OidcSettings, UserOutput};
use credlet_testkit::issuer::FakeIssuer;
use credlet_testkit::logs::LeakCheck;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::browser::FakeBrowser;

/// Fails a test that hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

struct Sandbox {
    watch: Arc<LeakCheck>,
    issuer: FakeIssuer,
    browser: FakeBrowser,
    clock: Arc<TestClock>,
    output: Arc<RecordedOutput>,
    dir: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Self {
        let watch = Arc::new(LeakCheck::new());
        let issuer = FakeIssuer::start(&watch);
        let clock = Arc::new(TestClock { hanging: Arc::clone(&issuer.hanging), ..TestClock::default() });
        let (browser, output) = (FakeBrowser::default(), Arc::default());
        Self { watch, issuer, browser, clock, output, dir: tempfile::tempdir().unwrap() }
    }

    fn options(&self) -> OidcOptions {
        OidcOptions {
            issuer_url: Some(self.issuer.url().to_owned()),
            client_id: Some("kube".into()),
            extra_scopes: vec!["email".into(), "offline_access".into()],
            listen_address: vec!["127.0.0.1:0".into()],
            browser_command: Some("sh".into()),
            authentication_timeout_sec: 180,
            token_cache_dir: Some(self.dir.path().join("tokens")),
            ..OidcOptions::default()
        }
    }

    fn platform(&self) -> Platform {
        Platform {
            clock: Arc::clone(&self.clock) as _,
            env: Arc::new(FixedEnv::new([("PATH", "/usr/bin:/bin"), ("CREDLET_X", "private")])),
            runner: Arc::new(self.browser.clone()),
            observer: Arc::new(NoopObserver),
        }
    }

    fn request(&self) -> LoginRequest {
        LoginRequest { cluster: Some("https://api.blue.example:6443".into()), interactive: false }
    }

    fn output(&self) -> Arc<dyn UserOutput> {
        Arc::clone(&self.output) as _
    }

    async fn run(&self, options: &OidcOptions) -> Result<ExecCredentialStatus, OidcError> {
        self.run_as(options, &self.request()).await
    }

    async fn run_as(&self, options: &OidcOptions, request: &LoginRequest) -> Result<ExecCredentialStatus, OidcError> {
        let platform = self.platform();
        let settings = OidcSettings::new(options, &*platform.env).unwrap();
        let output = self.output();
        let token = credlet_oidc::token(&settings, request, &platform, &output);
        let outcome = tokio::time::timeout(TEST_TIMEOUT, token).await.unwrap();
        if let Err(error) = &outcome {
            self.watch.error(error);
        }
        outcome
    }

    async fn token(&self) -> ExecCredentialStatus {
        self.run(&self.options()).await.unwrap()
    }

    /// Returns the error of a run that must fail.
    async fn error_text(&self) -> String {
        self.run(&self.options()).await.unwrap_err().to_chained_string()
    }

    /// Returns the URL that the user is asked to open.
    async fn start_url(&self) -> String {
        loop {
            let printed = self.output.all();
            if let Some(url) = printed.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:")) {
                return url.to_owned();
            }
            tokio::task::yield_now().await;
        }
    }

    /// The file of the stored login.
    fn file(&self) -> std::path::PathBuf {
        let files = std::fs::read_dir(self.dir.path().join("tokens")).unwrap();
        let mut files = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_none());
        let file = files.next().unwrap();
        assert!(files.next().is_none(), "one login, one file");
        file
    }

    fn stored(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.file()).unwrap()).unwrap()
    }
}

/// Checks that no secret was printed.
impl Drop for Sandbox {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.output.0.lock().unwrap().iter().for_each(|line| self.watch.text(line));
            for page in self.browser.pages.borrow().iter() {
                self.watch.text(page);
            }
            for words in self.browser.started.lock().unwrap().iter() {
                self.watch.text(words.join(" "));
            }
            // The issuer's thread also holds the watch, so it is never dropped.
            let leaks = self.watch.leaks();
            assert!(leaks.is_empty(), "leaked secrets:\n{}", leaks.join("\n"));
        }
    }
}

#[derive(Default)]
struct RecordedOutput(Mutex<Vec<String>>);

impl UserOutput for RecordedOutput {
    fn print_line(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl RecordedOutput {
    fn all(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

/// The system's clock with an offset. Sleeps between two polls for a device code end at once, and the request timeout ends when
/// the issuer hangs; all other sleeps never end.
#[derive(Debug)]
struct TestClock {
    real: SystemClock,
    ahead: Mutex<i64>,
    slept: Mutex<Vec<u64>>,
    hanging: Arc<Notify>,
    login_times_out: Mutex<bool>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            real: SystemClock::new(),
            ahead: Mutex::default(),
            slept: Mutex::default(),
            hanging: Arc::default(),
            login_times_out: Mutex::default(),
        }
    }
}

impl TestClock {
    fn advance(&self, seconds: i64) {
        *self.ahead.lock().unwrap() += seconds;
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.real.now() + jiff::SignedDuration::from_secs(*self.ahead.lock().unwrap())
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic() + Duration::from_secs(self.slept.lock().unwrap().iter().sum())
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match duration.as_secs() {
            seconds if seconds % 5 == 3 => {
                self.slept.lock().unwrap().push(seconds);
                Box::pin(std::future::ready(()))
            }
            180 if *self.login_times_out.lock().unwrap() => Box::pin(std::future::ready(())),
            30 => Box::pin(self.hanging.notified()),
            _ => Box::pin(std::future::pending()),
        }
    }
}
