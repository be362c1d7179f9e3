//! Ten thousand requests across an expiry, a certificate rotation and a revocation, to a server in its own process.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use credlet_client::Client;
use credlet_http::RequestBody;
use credlet_testkit::ca::TestCa;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::{ClientCertificates, FakeApiServer};
use http::header::AUTHORIZATION;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::{HANG, exec_user, get, options, resolve_with};

/// Names the directory through which a server in its own process is talked to.
const SERVER: &str = "CREDLET_TEST_SERVER";

// Without the log check, which would look through a line for every frame: the other tests here have it.
const TOKENS: [&str; 3] = ["first-token", "second-token", "third-token"];

/// This test binary as a server in another process, controlled through files.
struct ServerProcess {
    dir: tempfile::TempDir,
    child: Child,
}

impl ServerProcess {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let this_binary = std::env::current_exe().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test plays the outside world")]
        let child = Command::new(this_binary)
            .args(["--exact", "load::server_process"])
            .env(SERVER, dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { dir, child };
        until(|| server.dir.path().join("url").exists()).await;
        server
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    /// Which token the server saw last.
    fn last_token(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("last")).unwrap_or_default()
    }

    async fn revoke(&self, token: &str) {
        put(self.dir.path(), "revoke", token);
        until(|| !self.dir.path().join("revoke").exists()).await;
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file atomically, because the other process polls it.
fn put(dir: &Path, name: &str, text: &str) {
    let beside = dir.join(format!("{name}.new"));
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, dir.join(name)).unwrap();
}

async fn until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, wait).await.unwrap();
}

/// Server process of the load test. Does nothing when run as a test.
#[tokio::test(flavor = "multi_thread")]
async fn server_process() {
    #[expect(clippy::disallowed_methods, reason = "a test plays the outside world")]
    let Some(dir) = std::env::var_os(SERVER).map(PathBuf::from) else { return };
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).client_certificates(ClientCertificates::Required).start();
    TOKENS.iter().for_each(|token| server.accept_token(*token));
    put(&dir, "ca", ca.pem());
    for name in ["one", "two"] {
        let identity = ca.client(name).issue();
        put(&dir, &format!("{name}.crt"), identity.cert_pem());
        put(&dir, &format!("{name}.key"), identity.key_pem());
    }
    put(&dir, "url", &server.url());
    // Runs until the test removes its directory.
    while dir.exists() {
        if let Ok(token) = std::fs::read_to_string(dir.join("revoke")) {
            server.revoke_token(&token);
            std::fs::remove_file(dir.join("revoke")).unwrap();
        }
        if server.counts().requests > 0 {
            let last = server.last_request();
            if let (Some(token), true) = (last.bearer(), dir.exists()) {
                put(&dir, "last", token);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends so many requests, two hundred at a time.
#[derive(Clone)]
struct Crowd {
    client: Client,
    at_once: Arc<Semaphore>,
    sent: Arc<AtomicUsize>,
}

impl Crowd {
    async fn send(&self, requests: usize) {
        let mut tasks = JoinSet::new();
        for _ in 0..requests {
            let (client, at_once) = (self.client.clone(), Arc::clone(&self.at_once));
            tasks.spawn(async move {
                let _permit = at_once.acquire_owned().await.unwrap();
                crate::status(&client, "/version").await
            });
        }
        while let Some(status) = tasks.join_next().await {
            assert_eq!(status.unwrap(), StatusCode::OK);
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_expiry_rotation_and_revocation() {
    let server = ServerProcess::start().await;
    let slow = Duration::from_secs(1);
    // The second answer is renewed ahead of the first one's expiry and brings another certificate; the third is asked
    // for because the second token is revoked. Each stands still before a gate, so that the test can look around.
    let plugin = TestPlugin::new()
        .sleeps(slow)
        .answers(TOKENS[0])
        .certificate(server.read("one.crt"), server.read("one.key"))
        .expiring_in(Duration::from_secs(20))
        .on_the_next_run()
        .sleeps(slow)
        .waits_at("renewal")
        .answers(TOKENS[1])
        .certificate(server.read("two.crt"), server.read("two.key"))
        .on_the_next_run()
        .sleeps(slow)
        .waits_at("replacement")
        .answers(TOKENS[2])
        .certificate(server.read("two.crt"), server.read("two.key"));
    let resolved = resolve_with(&server.read("url"), &server.read("ca"), &exec_user(&plugin));
    let mut options = options();
    options.refresh_policy.refresh_ahead_ratio = 0.5;
    let client = Client::new(&resolved, options).unwrap();
    let mut open_watch = get(&client, "/watch?interval_ms=50").await.into_body();
    assert_eq!(plugin.runs(), 1);

    let crowd =
        Crowd { client: client.clone(), at_once: Arc::new(Semaphore::new(200)), sent: Arc::new(AtomicUsize::new(0)) };
    // Few at a time, so that also a slow machine notices the renewal long before the first credential's end.
    let mut renewal = pin!(plugin.reached("renewal"));
    while tokio::time::timeout(Duration::ZERO, &mut renewal).await.is_err() {
        crowd.send(200).await;
    }
    // The plugin is being asked, and will not answer before all of these have been answered: none waits for it.
    crowd.send(500).await;
    plugin.open("renewal");
    let rotated = async {
        while server.last_token() != TOKENS[1] {
            crowd.send(1).await;
        }
    };
    tokio::time::timeout(HANG, rotated).await.unwrap();

    server.revoke(TOKENS[1]).await;
    let holders = crowd.clone();
    let holders = tokio::spawn(async move { holders.send(1_000).await });
    plugin.reached("replacement").await;
    // Requests with the revoked token wait for the run. Others do not: a request with its own `Authorization`, and the
    // watch that was opened under the first certificate.
    let own = Request::get("/version").header(AUTHORIZATION, format!("Bearer {}", TOKENS[0]));
    let own = tokio::time::timeout(HANG, client.send(own.body(RequestBody::empty()).unwrap())).await.unwrap();
    assert_eq!(own.unwrap().status(), StatusCode::OK);
    assert!(tokio::time::timeout(HANG, open_watch.frame()).await.unwrap().unwrap().is_ok());
    assert!(!holders.is_finished());
    plugin.open("replacement");
    tokio::time::timeout(HANG, holders).await.unwrap().unwrap();

    crowd.send(10_000_usize.saturating_sub(crowd.sent())).await;
    assert!(crowd.sent() >= 10_000);
    assert_eq!(plugin.runs(), 3);
    assert!(open_watch.frame().await.unwrap().is_ok());
}
