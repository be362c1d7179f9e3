//! A person, a browser, an issuer on loopback, and the plugin between them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod browser;
mod device;
mod keeping;
mod logging_in;
#[path = "../support/pocket.rs"]
mod pocket;
mod provider;
mod refusing;
mod renewing;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use credlet_api::exec::ExecCredentialStatus;
use credlet_core::{Clock, FixedEnv, NoObserver, SystemClock, World};
use credlet_plugins::oidc::{self, Asked, Error, Options, Settings, Talk};
use credlet_testkit::logs::Watch;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::browser::Browser;
use crate::provider::Provider;

/// Longer than anything here takes, so that a hang fails a test instead of stopping it.
const HANG: Duration = Duration::from_secs(60);

struct Scene {
    watch: Arc<Watch>,
    provider: Provider,
    browser: Browser,
    clock: Arc<TestClock>,
    heard: Arc<Heard>,
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let watch = Arc::new(Watch::new());
        let provider = Provider::start(&watch);
        let clock = Arc::new(TestClock { hanging: Arc::clone(&provider.hanging), ..TestClock::default() });
        let (browser, heard) = (Browser::default(), Arc::default());
        Self { watch, provider, browser, clock, heard, dir: tempfile::tempdir().unwrap() }
    }

    fn options(&self) -> Options {
        Options {
            issuer_url: Some(self.provider.url.clone()),
            client_id: Some("kube".into()),
            extra_scopes: vec!["email".into(), "offline_access".into()],
            listen_address: vec!["127.0.0.1:0".into()],
            browser_command: Some("sh".into()),
            authentication_timeout_sec: 180,
            token_cache_dir: Some(self.dir.path().join("tokens")),
            ..Options::default()
        }
    }

    fn world(&self) -> World {
        World {
            clock: Arc::clone(&self.clock) as _,
            env: Arc::new(FixedEnv::new([("PATH", "/usr/bin:/bin"), ("CREDLET_X", "private")])),
            runner: Arc::new(self.browser.clone()),
            observer: Arc::new(NoObserver),
        }
    }

    fn asked(&self) -> Asked {
        Asked { cluster: Some("https://api.blue.example:6443".into()), person: false }
    }

    fn talk(&self) -> Arc<dyn Talk> {
        Arc::clone(&self.heard) as _
    }

    async fn run(&self, options: &Options) -> Result<ExecCredentialStatus, Error> {
        self.run_as(options, &self.asked()).await
    }

    async fn run_as(&self, options: &Options, asked: &Asked) -> Result<ExecCredentialStatus, Error> {
        let world = self.world();
        let settings = Settings::new(options, &*world.env).unwrap();
        let talk = self.talk();
        let token = oidc::token(&settings, asked, &world, &talk);
        let outcome = tokio::time::timeout(HANG, token).await.unwrap();
        if let Err(error) = &outcome {
            self.watch.error(error);
        }
        outcome
    }

    async fn token(&self) -> ExecCredentialStatus {
        self.run(&self.options()).await.unwrap()
    }

    /// What a run ends in that gives no token.
    async fn refused(&self) -> String {
        self.run(&self.options()).await.unwrap_err().story()
    }

    /// The file that the login is kept in.
    fn file(&self) -> std::path::PathBuf {
        let files = std::fs::read_dir(self.dir.path().join("tokens")).unwrap();
        let mut files = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_none());
        let file = files.next().unwrap();
        assert!(files.next().is_none(), "one login, one file");
        file
    }

    fn kept(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.file()).unwrap()).unwrap()
    }
}

/// Whatever was said is searched for secrets in the end.
impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.heard.0.lock().unwrap().iter().for_each(|line| self.watch.text(line));
            for page in self.browser.pages.borrow().iter() {
                self.watch.text(page);
            }
            for words in self.browser.started.lock().unwrap().iter() {
                self.watch.text(words.join(" "));
            }
            // The issuer's thread holds the watch too, so its own end never comes.
            let leaks = self.watch.leaks();
            assert!(leaks.is_empty(), "secrets were seen:\n{}", leaks.join("\n"));
        }
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Talk for Heard {
    fn say(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl Heard {
    fn all(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

/// The machine's clock, set wrong by so much. Of those who sleep, the ones that wait between two questions about a
/// device are let go at once, and the one that limits a question when that hangs; all others sleep for ever.
#[derive(Debug)]
struct TestClock {
    real: SystemClock,
    ahead: Mutex<i64>,
    slept: Mutex<Vec<u64>>,
    hanging: Arc<Notify>,
    nobody_comes: Mutex<bool>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            real: SystemClock::new(),
            ahead: Mutex::default(),
            slept: Mutex::default(),
            hanging: Arc::default(),
            nobody_comes: Mutex::default(),
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
            180 if *self.nobody_comes.lock().unwrap() => Box::pin(std::future::ready(())),
            30 => Box::pin(self.hanging.notified()),
            _ => Box::pin(std::future::pending()),
        }
    }
}
