//! Start, leases and shutdown of proxies.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use credlet_exec::{Clock as _, ManualClock, Platform, SystemClock};
use credlet_http::CryptoBackend;
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{
    BridgeMode, ControlClient, ControlError, DaemonError, DaemonLauncher, LoopbackOptions, ProxyCa, ProxyServer,
    ServeError, ServerOptions, ShutdownReason, SocketProtocol, UpstreamTarget,
};
use credlet_testkit::ca::TestCa;
use credlet_testkit::plugin::wait_for_end;
use credlet_testkit::server::FakeApiServer as Upstream;
use http_body_util::BodyExt as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use crate::child_process::{ChildRole, copy_of_program};
use crate::support::{FakeSigner, TestProxy, cluster, locked, speak, target, text, within};

/// Settings that child processes need.
struct DaemonSandbox {
    home: tempfile::TempDir,
    upstream: Upstream,
    dir: ProxyDir,
}

impl DaemonSandbox {
    fn new() -> Self {
        let (home, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
        std::fs::write(home.path().join("ca"), ca.pem()).unwrap();
        let dir = ProxyDir::open(home.path().join("d")).unwrap();
        Self { home, upstream: Upstream::setup(&ca).start_in_thread(), dir }
    }

    fn role(&self, name: &str, lock: &Path) -> ChildRole {
        let role = ChildRole::new(name).with("TEST_DIR", self.dir.path()).with("TEST_CA", self.home.path().join("ca"));
        role.with("TEST_SERVER", self.upstream.url()).with("TEST_LOCK", lock)
    }

    fn control(&self) -> ControlClient {
        ControlClient::new(&self.dir).unwrap()
    }

    /// Sends a request to the API server through the socket.
    async fn request(&self) -> String {
        let mut sender = speak(UnixStream::connect(self.dir.socket()).await.unwrap()).await;
        let host = self.upstream.address().to_string();
        let request = http::Request::get("/version").header("host", host).body(crate::support::empty()).unwrap();
        text(sender.send_request(request).await.unwrap()).await
    }
}

fn kill(pid: u32) {
    let killed = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
}

fn heard(mut child: std::process::Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    text
}

#[tokio::test]
async fn concurrent_plugins_start_one_daemon() {
    let sandbox = DaemonSandbox::new();
    let locks: Vec<_> = (0..20).map(|n| locked(sandbox.home.path(), &format!("{n}.lock"))).collect();
    let plugins: Vec<_> = locks
        .iter()
        .map(|(_, path)| sandbox.role("plugin that starts a daemon", path).with("TEST_LINGER", "100").play())
        .collect();
    let answers: Vec<_> = plugins.into_iter().map(heard).collect();
    for answer in &answers {
        assert!(answer.contains(r#""url":"unix:///"#), "{answer}");
        assert_eq!(answer, &answers[0]);
    }
    let starts = std::fs::read_to_string(sandbox.dir.path().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 1, "{starts}");
    let report = sandbox.control().status().await.unwrap();
    assert_eq!(report.pid.to_string(), starts.trim());
    assert_eq!(report.leases, 20);
    on_its_own(report.pid);
    assert!(sandbox.request().await.contains("gitVersion"));

    drop(locks);
    tokio::task::spawn_blocking(move || wait_for_end(report.pid)).await.unwrap();
    assert!(!sandbox.dir.socket().exists() && !sandbox.dir.control().exists());
    assert!(matches!(sandbox.control().status().await, Err(ControlError::NotRunning)));
}

/// Checks from outside, which sees little of a hardened process.
fn on_its_own(pid: u32) {
    let proc = Path::new("/proc").join(pid.to_string());
    let Ok(stat) = std::fs::read_to_string(proc.join("stat")) else { return };
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string(), "a session of its own");
    let limits = std::fs::read_to_string(proc.join("limits")).unwrap();
    let core: Vec<_> = limits.lines().find(|line| line.contains("core file")).unwrap().split_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"], "no dumps");
    let link = |name: &str| std::fs::read_link(proc.join(name));
    match link("cwd") {
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "nobody looks into it"),
        Ok(cwd) => {
            assert_eq!(cwd, Path::new("/"));
            for stream in ["fd/0", "fd/1", "fd/2"] {
                assert_eq!(link(stream).unwrap(), Path::new("/dev/null"));
            }
        }
    }
}

#[tokio::test]
async fn killed_daemon_is_replaced() {
    let sandbox = DaemonSandbox::new();
    let (_lock, path) = locked(sandbox.home.path(), "lock");
    let plugin = || sandbox.role("plugin that starts a daemon", &path).with("TEST_LINGER", "100").play();
    let first = heard(plugin());
    let pid = sandbox.control().status().await.unwrap().pid;
    kill(pid);
    tokio::task::spawn_blocking(move || wait_for_end(pid)).await.unwrap();
    assert!(sandbox.dir.socket().exists(), "nobody was there to take it away");

    assert_eq!(heard(plugin()), first);
    let other = sandbox.control().status().await.unwrap().pid;
    assert_ne!(other, pid);
    assert!(sandbox.request().await.contains("gitVersion"));
    sandbox.control().stop().await.unwrap();
    tokio::task::spawn_blocking(move || wait_for_end(other)).await.unwrap();
}

#[test]
fn daemon_process_is_hardened() {
    let sandbox = DaemonSandbox::new();
    let (_lock, path) = locked(sandbox.home.path(), "lock");
    let told = sandbox.home.path().join("told");
    // A descriptor that a client leaked: not close-on-exec.
    let slipped = std::fs::File::create(sandbox.home.path().join("slipped")).unwrap();
    rustix::io::fcntl_setfd(&slipped, rustix::io::FdFlags::empty()).unwrap();
    let role = sandbox.role("plugin that starts a daemon", &path).with("TEST_TELLS", &told).with("TEST_FAILS", "done");
    heard(role.with("OTHERS_SECRET", "s3cr3t").play());
    let told = std::fs::read_to_string(told).unwrap();
    assert!(told.starts_with("files 0, umask 77, NotDumpable, "), "{told}");
    assert!(told.contains("TEST_TELLS") && !told.contains("OTHERS_"), "{told}");
}

#[test]
fn daemon_raises_open_file_limit() {
    let sandbox = DaemonSandbox::new();
    let (_lock, path) = locked(sandbox.home.path(), "lock");
    let told = sandbox.home.path().join("told");
    let role = sandbox.role("plugin that starts a daemon", &path).with("TEST_TELLS", &told).with("TEST_FAILS", "done");
    heard(role.with("TEST_FILES", "100").play());
    let told = std::fs::read_to_string(told).unwrap();
    // Not the hard limit, because child processes inherit it.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX).min(1 << 16);
    assert!(told.contains(&format!(", room for {most} files, ")), "{told}");
}

#[test]
fn failed_start_reports_the_reason() {
    let sandbox = DaemonSandbox::new();
    let (_lock, path) = locked(sandbox.home.path(), "lock");
    let role = sandbox.role("plugin that starts a daemon", &path).with("TEST_FAILS", "the card is not in the reader");
    assert_eq!(heard(role.play()), "error: the proxy failed to start: the card is not in the reader\n");
}

#[tokio::test]
async fn daemon_killed_at_start_is_restarted() {
    let sandbox = DaemonSandbox::new();
    let (_lock, path) = locked(sandbox.home.path(), "lock");
    let stall = sandbox.home.path().join("stall");
    let role = sandbox.role("plugin that starts a daemon", &path).with("TEST_STALLS", &stall).play();
    within(async {
        while !stall.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    kill(std::fs::read_to_string(stall).unwrap().parse().unwrap());
    let answer = tokio::task::spawn_blocking(|| heard(role)).await.unwrap();
    assert!(answer.contains(r#""url":"unix:///"#), "{answer}");
    assert!(sandbox.request().await.contains("gitVersion"));
}

#[test]
fn daemon_hanging_at_start_is_killed() {
    let sandbox = DaemonSandbox::new();
    let (_lock, path) = locked(sandbox.home.path(), "lock");
    let stall = sandbox.home.path().join("stall");
    // On a busy machine this takes a while.
    for patience in ["1", "4", "16", "60"] {
        let role = sandbox.role("plugin that starts a daemon", &path).with("TEST_STALLS", &stall);
        let answer = heard(role.with("TEST_PATIENCE", patience).play());
        assert_eq!(answer, format!("error: the start of the proxy timed out after {patience} seconds\n"));
        if let Ok(pid) = std::fs::read_to_string(&stall) {
            return wait_for_end(pid.parse().unwrap());
        }
    }
    panic!("it never began to start");
}

#[test]
fn crashed_daemon_is_not_restarted() {
    for (signal, starts, said) in [("9", 4, "it was killed by SIGKILL"), ("6", 1, "it exited without a message")] {
        let sandbox = DaemonSandbox::new();
        let (_lock, path) = locked(sandbox.home.path(), "lock");
        let role = sandbox.role("plugin that starts a daemon", &path).with("TEST_DIES", signal);
        assert_eq!(heard(role.play()), format!("error: the proxy failed to start: {said}\n"));
        let seen = std::fs::read_to_string(sandbox.dir.path().join("starts")).unwrap();
        assert_eq!(seen.lines().count(), starts, "{said}");
    }
}

/// Tokio's paused clock advances while the runtime is idle.
#[tokio::test(start_paused = true)]
async fn hanging_proxy_times_out_with_hints() {
    let home = tempfile::tempdir().unwrap();
    let dir = ProxyDir::open(home.path().join("d")).unwrap();
    // Like a stopped process: the kernel accepts connections and no response follows.
    let _stopped = std::os::unix::net::UnixListener::bind(dir.control()).unwrap();
    let pid = std::process::id();
    let told = ControlClient::new(&dir).unwrap().status().await.unwrap_err();
    assert_eq!(told.to_string(), format!("the proxy (process {pid}) timed out after 10 seconds"));
    let told = ControlClient::new(&dir).unwrap().unlock(&credlet_api::Secret::new("1234")).await.unwrap_err();
    assert!(matches!(told, ControlError::TimedOut { limit, .. } if limit > Duration::from_secs(10)), "{told:?}");
    let told = DaemonLauncher::new(dir, home.path().join("no program"), Vec::new()).lease(None).await.unwrap_err();
    assert!(matches!(told, DaemonError::Control(ControlError::TimedOut { .. })), "{told:?}");
    assert!(told.hints().concat().contains(&format!("kill -CONT {pid}")), "{:?}", told.hints());
}

#[tokio::test]
async fn foreground_proxy_detaches_stdio() {
    let sandbox = DaemonSandbox::new();
    let path = sandbox.home.path().join("lock");
    let mut client = sandbox.role("client", &path).play();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");

    let mut plugin = sandbox.role("plugin that is the proxy", &path).play();
    let mut answer = String::new();
    // Reads to EOF while the plugin is still running.
    plugin.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.contains(r#""url":"unix:///"#), "{answer}");
    assert_eq!(plugin.try_wait().unwrap(), None);
    assert!(sandbox.request().await.contains("gitVersion"));

    client.kill().unwrap();
    client.wait().unwrap();
    let ended = tokio::task::spawn_blocking(move || plugin.wait().unwrap()).await.unwrap();
    assert!(ended.success());
    assert!(!sandbox.dir.socket().exists());
}

#[test]
fn exited_client_prevents_start() {
    let sandbox = DaemonSandbox::new();
    let role = sandbox.role("plugin that is the proxy", &sandbox.home.path().join("no such lock"));
    assert_eq!(heard(role.play()), "gone\n");
}

#[tokio::test]
async fn other_user_is_rejected_despite_mode() {
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    // Only root can change its user. Others connect as themselves and are accepted.
    let root = rustix::process::geteuid().is_root();
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let program = home.path().join("visitor");
    copy_of_program(&program);
    for path in [home.path(), &program, proxy.home.path(), proxy.dir.path()] {
        open(path, 0o755);
    }
    open(&proxy.dir.socket(), 0o777);
    let mut role = ChildRole::of(&program, "visitor").with("TEST_SOCKET", proxy.dir.socket());
    if root {
        role = role.by_user(65534);
    }
    let told = tokio::task::spawn_blocking(|| heard(role.play())).await.unwrap();
    let metrics = proxy.control().metrics().await.unwrap();
    if root {
        assert_eq!(told, "heard 0 bytes: \n");
        assert!(metrics.contains("credlet_proxy_refused_connections_total 1\n"), "{metrics}");
    } else {
        assert!(told.contains("421"), "{told}");
    }
}

#[tokio::test]
async fn a_directory_has_one_proxy_at_a_time() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let options = || ServerOptions::new(target(&cluster(&upstream, &ca)), proxy.dir.clone());
    let second = ProxyServer::bind(Arc::new(FakeSigner::nothing()), options()).await;
    assert!(matches!(second, Err(ServeError::AlreadyRunning)));
    assert!(proxy.send(proxy.get("/version")).await.status().is_success(), "the first one is not disturbed");
    proxy.control().stop().await.unwrap();
    assert_eq!(within(proxy.running).await.unwrap(), ShutdownReason::Requested);
    ProxyServer::bind(Arc::new(FakeSigner::nothing()), options()).await.unwrap();
}

#[tokio::test]
async fn too_long_socket_path_is_rejected() {
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let dir = ProxyDir::open(home.path().join("x".repeat(100))).unwrap();
    let options = ServerOptions::new(target(&cluster(&upstream, &ca)), dir);
    let error = ProxyServer::bind(Arc::new(FakeSigner::nothing()), options).await.unwrap_err();
    assert!(error.to_string().contains("invalid socket path"), "{error}");
}

/// A proxy with a manual clock.
async fn timed(adjust: impl FnOnce(&mut ServerOptions)) -> (ManualClock, Upstream, TestProxy) {
    let ca = TestCa::new();
    // An HTTP/2 client waits some seconds for SETTINGS on the same clock, which jumps.
    let upstream = Upstream::setup(&ca).alpn(["http/1.1"]).start();
    let clock = ManualClock::new(SystemClock::new().now());
    let mut platform = Platform::system();
    platform.clock = Arc::new(clock.clone());
    let cluster = cluster(&upstream, &ca);
    let proxy = TestProxy::start_with(FakeSigner::nothing(), &cluster, |options| {
        options.target = UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &platform).unwrap();
        options.socket_protocol = SocketProtocol::Plain;
        adjust(options);
    });
    (clock, upstream, proxy.await)
}

#[tokio::test]
async fn lingers_after_last_client_and_request() {
    let home = tempfile::tempdir().unwrap();
    let (lock, path) = locked(home.path(), "lock");
    let (clock, _upstream, proxy) = timed(|options| options.leases = vec![path]).await;
    clock.advance(Duration::from_secs(3600));
    assert_eq!(proxy.control().status().await.unwrap().leases, 1, "its client is there");
    drop(lock);
    while proxy.control().status().await.unwrap().leases > 0 {}

    clock.advance(Duration::from_secs(299));
    assert!(proxy.send(proxy.get("/version")).await.status().is_success());
    while proxy.control().status().await.unwrap().open > 0 {}
    clock.advance(Duration::from_secs(299));
    assert!(proxy.control().status().await.is_ok(), "a request is a sign of life");
    clock.advance(Duration::from_secs(2));
    assert_eq!(within(proxy.running).await.unwrap(), ShutdownReason::Idle);
}

#[tokio::test]
async fn client_without_lock_has_timed_lease() {
    let authority = Arc::new(ProxyCa::generate(SystemClock::new().now()).unwrap());
    let (clock, _upstream, proxy) = timed(|options| {
        options.loopback = Some(LoopbackOptions { port: 0, mode: BridgeMode::Server, authority });
        options.linger = Duration::ZERO;
    })
    .await;
    let told = proxy.control().lease(None).await.unwrap().status;
    let life = told.expiration_timestamp.unwrap().duration_since(clock.now());
    clock.advance(Duration::try_from(life).unwrap());
    assert!(proxy.control().status().await.is_ok(), "it may still come");
    proxy.control().lease(None).await.unwrap();
    clock.advance(Duration::try_from(life).unwrap());
    assert!(proxy.control().status().await.is_ok(), "it has asked again");
    clock.advance(Duration::from_secs(61));
    assert_eq!(within(proxy.running).await.unwrap(), ShutdownReason::Idle);
}

#[tokio::test]
async fn max_lifetime_ends_despite_watch() {
    let (clock, _upstream, proxy) = timed(|_| ()).await;
    let mut watch = proxy.send(proxy.get("/watch?count=1000000")).await;
    within(watch.body_mut().frame()).await.unwrap().unwrap();
    for _ in 0..10 {
        clock.advance(Duration::from_secs(3600));
        assert_eq!(proxy.control().status().await.unwrap().open, 1);
    }
    clock.advance(Duration::from_secs(2 * 3600));
    // The drain timeout uses the same clock.
    let running = async {
        let mut running = proxy.running;
        loop {
            tokio::select! {
                ended = &mut running => return ended.unwrap(),
                () = tokio::time::sleep(Duration::from_millis(10)) => clock.advance(Duration::from_secs(10)),
            }
        }
    };
    assert_eq!(within(running).await, ShutdownReason::MaxLifetime);
}

#[tokio::test]
async fn shutdown_drains_requests_in_flight() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    let mut idle = proxy.connect().await;
    let mut watch = proxy.send(proxy.get("/watch?count=5&interval_ms=100")).await;
    within(watch.body_mut().frame()).await.unwrap().unwrap();
    proxy.control().stop().await.unwrap();
    // An idle connection closes at once, and then the sockets are removed.
    assert_eq!(within(idle.read(&mut [0; 1])).await.unwrap(), 0);
    assert!(!proxy.dir.socket().exists() && !proxy.dir.is_served());
    let rest = within(watch.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(rest.split(|byte| *byte == b'\n').count(), 5, "four more lines and nothing after the last");
    assert_eq!(within(proxy.running).await.unwrap(), ShutdownReason::Requested);
}

/// A signer with a token that closes slowly.
#[derive(Debug)]
struct SlowCloseSigner {
    closing: std::sync::mpsc::Sender<()>,
    go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
    closed: Arc<std::sync::atomic::AtomicBool>,
}

impl credlet_proxy::sign::Signer for SlowCloseSigner {
    fn credential(&self) -> credlet_proxy::sign::SignFuture<'_, credlet_http::HttpCredential> {
        Box::pin(async { Ok(credlet_http::HttpCredential::new(1, None, None)) })
    }

    fn close(&self) {
        self.closing.send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        self.closed.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// The next proxy may need the same token, so it must not start before this one has closed its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_waits_for_signer_close() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let ((closing, begun), (resume, go_on)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let closed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let signer = SlowCloseSigner { closing, go_on: std::sync::Mutex::new(go_on), closed: Arc::clone(&closed) };
    let proxy = TestProxy::start(signer, &upstream, &ca).await;
    // Concurrent callers block neither each other nor the proxy.
    let stops = [(); 2].map(|()| {
        let (control, closed) = (proxy.control(), Arc::clone(&closed));
        tokio::spawn(async move {
            control.stop_and_wait().await.unwrap();
            closed.load(std::sync::atomic::Ordering::SeqCst)
        })
    });
    tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    // The second caller may find no proxy: its socket is removed before the signer is closed.
    assert!(stops.iter().any(|stop| !stop.is_finished()));
    resume.send(()).unwrap();
    let mut waited = 0;
    for stop in stops {
        waited += usize::from(within(stop).await.unwrap());
    }
    assert!(waited > 0, "stop returned before the signer was closed");
    let control = proxy.control();
    assert_eq!(within(proxy.running).await.unwrap(), ShutdownReason::Requested);
    // Stopping a proxy that is not running succeeds.
    control.stop_and_wait().await.unwrap();
}

#[tokio::test]
async fn control_socket_serves_no_api_requests() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    for _ in 0..3 {
        text(proxy.send(proxy.get("/version")).await).await;
    }
    text(proxy.send(proxy.get("/metrics")).await).await;
    let metrics = proxy.control().metrics().await.unwrap();
    assert!(metrics.contains("credlet_proxy_requests_total{code=\"200\"} 3\n"), "{metrics}");
    assert!(metrics.contains("credlet_proxy_requests_total{code=\"404\"} 1\n"), "{metrics}");
    assert!(metrics.contains("credlet_proxy_upstream_handshakes_total 1\n"), "{metrics}");
    let report = proxy.control().status().await.unwrap();
    assert_eq!((report.pid, report.requests), (std::process::id(), 4));
    assert_eq!(report.server, upstream.address().to_string());

    let mut control = speak(UnixStream::connect(proxy.dir.control()).await.unwrap()).await;
    let request = http::Request::get("/version").header("host", "x").body(crate::support::empty()).unwrap();
    assert_eq!(control.send_request(request).await.unwrap().status(), 404);
    let wrong = proxy.control().unlock(&credlet_api::Secret::new("1234")).await.unwrap_err();
    assert_eq!(wrong.to_string(), "this signer cannot be unlocked");
    assert_eq!(upstream.counts().requests, 4);
}

#[tokio::test]
async fn backlog_is_served_at_shutdown() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start(FakeSigner::nothing(), &upstream, &ca).await;
    // The runtime has one thread, so the proxy sees neither of them before this test awaits.
    let stream = std::os::unix::net::UnixStream::connect(proxy.dir.socket()).unwrap();
    let mut control = std::os::unix::net::UnixStream::connect(proxy.dir.control()).unwrap();
    let stop = "POST /stop HTTP/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n";
    std::io::Write::write_all(&mut control, stop.as_bytes()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut sender = speak(UnixStream::from_std(stream).unwrap()).await;
    let response = within(sender.send_request(proxy.get("/version"))).await.unwrap();
    assert!(response.status().is_success());
    assert_eq!(within(proxy.running).await.unwrap(), ShutdownReason::Requested);
}
