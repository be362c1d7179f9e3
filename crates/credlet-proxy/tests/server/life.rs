//! How a proxy begins, whom it stays for, and how it ends.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use credlet_client::conn::Crypto;
use credlet_core::{Clock as _, ManualClock, SystemClock, World};
use credlet_proxy::dir::Dir;
use credlet_proxy::server::{
    Authority, Control, ControlError, Daemon, DaemonError, Ended, Guise, Hop, Loopback, Options, ServeError, Server,
    Target,
};
use credlet_testkit::ca::Ca;
use credlet_testkit::plugin::wait_for_end;
use credlet_testkit::server::Server as Upstream;
use http_body_util::BodyExt as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use crate::roles::{Role, copy_of_this_program};
use crate::support::{Proxy, Simple, cluster, locked, speak, target, text, within};

/// What processes need to know.
struct Stage {
    home: tempfile::TempDir,
    upstream: Upstream,
    dir: Dir,
}

impl Stage {
    fn new() -> Self {
        let (home, ca) = (tempfile::tempdir().unwrap(), Ca::new());
        std::fs::write(home.path().join("ca"), ca.pem()).unwrap();
        let dir = Dir::open(home.path().join("d")).unwrap();
        Self { home, upstream: Upstream::setup(&ca).start_in_thread(), dir }
    }

    fn role(&self, name: &str, lock: &Path) -> Role {
        let role = Role::new(name).with("TEST_DIR", self.dir.path()).with("TEST_CA", self.home.path().join("ca"));
        role.with("TEST_SERVER", self.upstream.url()).with("TEST_LOCK", lock)
    }

    fn control(&self) -> Control {
        Control::of(&self.dir).unwrap()
    }

    /// Asks the API server something by way of the socket.
    async fn ask(&self) -> String {
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
async fn twenty_plugins_that_start_at_once_get_one_daemon_which_ends_when_the_last_client_has_gone() {
    let stage = Stage::new();
    let locks: Vec<_> = (0..20).map(|n| locked(stage.home.path(), &format!("{n}.lock"))).collect();
    let plugins: Vec<_> = locks
        .iter()
        .map(|(_, path)| stage.role("plugin that starts a daemon", path).with("TEST_LINGER", "100").play())
        .collect();
    let answers: Vec<_> = plugins.into_iter().map(heard).collect();
    for answer in &answers {
        assert!(answer.contains(r#""url":"unix:///"#), "{answer}");
        assert_eq!(answer, &answers[0]);
    }
    let starts = std::fs::read_to_string(stage.dir.path().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 1, "{starts}");
    let report = stage.control().status().await.unwrap();
    assert_eq!(report.pid.to_string(), starts.trim());
    assert_eq!(report.leases, 20);
    on_its_own(report.pid);
    assert!(stage.ask().await.contains("gitVersion"));

    drop(locks);
    tokio::task::spawn_blocking(move || wait_for_end(report.pid)).await.unwrap();
    assert!(!stage.dir.socket().exists() && !stage.dir.control().exists());
    assert!(matches!(stage.control().status().await, Err(ControlError::Gone)));
}

/// As far as anybody can see from outside, which is not far if it did what it should.
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
async fn a_killed_daemon_leaves_a_socket_behind_and_the_next_one_takes_its_place() {
    let stage = Stage::new();
    let (_lock, path) = locked(stage.home.path(), "lock");
    let plugin = || stage.role("plugin that starts a daemon", &path).with("TEST_LINGER", "100").play();
    let first = heard(plugin());
    let pid = stage.control().status().await.unwrap().pid;
    kill(pid);
    tokio::task::spawn_blocking(move || wait_for_end(pid)).await.unwrap();
    assert!(stage.dir.socket().exists(), "nobody was there to take it away");

    assert_eq!(heard(plugin()), first);
    let other = stage.control().status().await.unwrap().pid;
    assert_ne!(other, pid);
    assert!(stage.ask().await.contains("gitVersion"));
    stage.control().stop().await.unwrap();
    tokio::task::spawn_blocking(move || wait_for_end(other)).await.unwrap();
}

#[test]
fn a_daemon_has_no_files_of_others_a_strict_umask_nobody_who_looks_into_it_and_the_variables_it_is_given() {
    let stage = Stage::new();
    let (_lock, path) = locked(stage.home.path(), "lock");
    let told = stage.home.path().join("told");
    // Something that a client let slip: it survives the start of a program.
    let slipped = std::fs::File::create(stage.home.path().join("slipped")).unwrap();
    rustix::io::fcntl_setfd(&slipped, rustix::io::FdFlags::empty()).unwrap();
    let role = stage.role("plugin that starts a daemon", &path).with("TEST_TELLS", &told).with("TEST_FAILS", "done");
    heard(role.with("OTHERS_SECRET", "s3cr3t").play());
    let told = std::fs::read_to_string(told).unwrap();
    assert!(told.starts_with("files 0, umask 77, NotDumpable, "), "{told}");
    assert!(told.contains("TEST_TELLS") && !told.contains("OTHERS_"), "{told}");
}

#[test]
fn a_daemon_may_have_many_files_open_though_whoever_started_it_may_not() {
    let stage = Stage::new();
    let (_lock, path) = locked(stage.home.path(), "lock");
    let told = stage.home.path().join("told");
    let role = stage.role("plugin that starts a daemon", &path).with("TEST_TELLS", &told).with("TEST_FAILS", "done");
    heard(role.with("TEST_FILES", "100").play());
    let told = std::fs::read_to_string(told).unwrap();
    // Not all there are: what it runs inherits this.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX).min(1 << 16);
    assert!(told.contains(&format!(", room for {most} files, ")), "{told}");
}

#[test]
fn a_daemon_that_cannot_begin_says_why_to_whoever_started_it() {
    let stage = Stage::new();
    let (_lock, path) = locked(stage.home.path(), "lock");
    let role = stage.role("plugin that starts a daemon", &path).with("TEST_FAILS", "the card is not in the reader");
    assert_eq!(heard(role.play()), "error: the proxy did not start: the card is not in the reader\n");
}

#[tokio::test]
async fn a_daemon_that_is_killed_while_it_starts_is_started_again() {
    let stage = Stage::new();
    let (_lock, path) = locked(stage.home.path(), "lock");
    let stall = stage.home.path().join("stall");
    let role = stage.role("plugin that starts a daemon", &path).with("TEST_STALLS", &stall).play();
    within(async {
        while !stall.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    kill(std::fs::read_to_string(stall).unwrap().parse().unwrap());
    let answer = tokio::task::spawn_blocking(|| heard(role)).await.unwrap();
    assert!(answer.contains(r#""url":"unix:///"#), "{answer}");
    assert!(stage.ask().await.contains("gitVersion"));
}

#[test]
fn a_daemon_that_hangs_while_it_starts_is_ended_when_its_time_is_over() {
    let stage = Stage::new();
    let (_lock, path) = locked(stage.home.path(), "lock");
    let stall = stage.home.path().join("stall");
    // On a busy machine it takes a while until it gets as far as that.
    for patience in ["1", "4", "16", "60"] {
        let role = stage.role("plugin that starts a daemon", &path).with("TEST_STALLS", &stall);
        let answer = heard(role.with("TEST_PATIENCE", patience).play());
        assert_eq!(answer, format!("error: the proxy did not start within {patience} seconds\n"));
        if let Ok(pid) = std::fs::read_to_string(&stall) {
            return wait_for_end(pid.parse().unwrap());
        }
    }
    panic!("it never began to start");
}

#[test]
fn a_daemon_that_is_killed_each_time_is_given_up_and_one_that_crashes_is_not_tried_again() {
    for (signal, starts, said) in [("9", 4, "it was ended by SIGKILL"), ("6", 1, "it ended without a word")] {
        let stage = Stage::new();
        let (_lock, path) = locked(stage.home.path(), "lock");
        let role = stage.role("plugin that starts a daemon", &path).with("TEST_DIES", signal);
        assert_eq!(heard(role.play()), format!("error: the proxy did not start: {said}\n"));
        let seen = std::fs::read_to_string(stage.dir.path().join("starts")).unwrap();
        assert_eq!(seen.lines().count(), starts, "{said}");
    }
}

/// Time passes when nothing else happens.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_says_nothing_is_not_waited_for_for_ever_and_is_named_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::open(home.path().join("d")).unwrap();
    // As one that was stopped: the kernel lets callers in, and nobody answers them.
    let _stopped = std::os::unix::net::UnixListener::bind(dir.control()).unwrap();
    let pid = std::process::id();
    let told = Control::of(&dir).unwrap().status().await.unwrap_err();
    assert_eq!(told.to_string(), format!("the proxy (process {pid}) did not answer within 10 seconds"));
    let told = Control::of(&dir).unwrap().unlock(&credlet_api::Secret::new("1234")).await.unwrap_err();
    assert!(matches!(told, ControlError::Silent { limit, .. } if limit > Duration::from_secs(10)), "{told:?}");
    let told = Daemon::new(dir, home.path().join("no program"), Vec::new()).ask(None).await.unwrap_err();
    assert!(matches!(told, DaemonError::Control(ControlError::Silent { .. })), "{told:?}");
    assert!(told.hints().concat().contains(&format!("kill -CONT {pid}")), "{:?}", told.hints());
}

#[tokio::test]
async fn a_plugin_that_is_the_proxy_lets_go_of_its_output_and_ends_when_its_client_is_killed() {
    let stage = Stage::new();
    let path = stage.home.path().join("lock");
    let mut client = stage.role("client", &path).play();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");

    let mut plugin = stage.role("plugin that is the proxy", &path).play();
    let mut answer = String::new();
    // To its end, although the plugin lives on.
    plugin.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.contains(r#""url":"unix:///"#), "{answer}");
    assert_eq!(plugin.try_wait().unwrap(), None);
    assert!(stage.ask().await.contains("gitVersion"));

    client.kill().unwrap();
    client.wait().unwrap();
    let ended = tokio::task::spawn_blocking(move || plugin.wait().unwrap()).await.unwrap();
    assert!(ended.success());
    assert!(!stage.dir.socket().exists());
}

#[test]
fn a_proxy_whose_client_is_gone_already_does_not_begin() {
    let stage = Stage::new();
    let role = stage.role("plugin that is the proxy", &stage.home.path().join("no such lock"));
    assert_eq!(heard(role.play()), "gone\n");
}

#[tokio::test]
async fn another_user_is_refused_even_where_the_permissions_would_let_it_in() {
    let (ca, home) = (Ca::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    // Only root can become somebody else; whoever else runs this plays the visitor as itself, and is let in.
    let root = rustix::process::geteuid().is_root();
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let program = home.path().join("visitor");
    copy_of_this_program(&program);
    for path in [home.path(), &program, proxy.home.path(), proxy.dir.path()] {
        open(path, 0o755);
    }
    open(&proxy.dir.socket(), 0o777);
    let mut role = Role::of(&program, "visitor").with("TEST_SOCKET", proxy.dir.socket());
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
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    let options = || Options::new(target(&cluster(&upstream, &ca)), proxy.dir.clone());
    let second = Server::bind(Arc::new(Simple::nothing()), options()).await;
    assert!(matches!(second, Err(ServeError::Taken)));
    assert!(proxy.send(proxy.get("/version")).await.status().is_success(), "the first one is not disturbed");
    proxy.control().stop().await.unwrap();
    assert_eq!(within(proxy.running).await.unwrap(), Ended::Told);
    Server::bind(Arc::new(Simple::nothing()), options()).await.unwrap();
}

#[tokio::test]
async fn a_path_that_no_socket_can_have_is_refused_with_its_length() {
    let (ca, home) = (Ca::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let dir = Dir::open(home.path().join("x".repeat(100))).unwrap();
    let options = Options::new(target(&cluster(&upstream, &ca)), dir);
    let error = Server::bind(Arc::new(Simple::nothing()), options).await.unwrap_err();
    assert!(error.to_string().contains("bytes that the path of a socket may have"), "{error}");
}

/// A proxy whose clock is ours.
async fn timed(adjust: impl FnOnce(&mut Options)) -> (ManualClock, Upstream, Proxy) {
    let ca = Ca::new();
    // A connection of HTTP/2 gives its server some seconds to say its limits: by our clock, which leaps.
    let upstream = Upstream::setup(&ca).alpn(["http/1.1"]).start();
    let clock = ManualClock::new(SystemClock::new().now());
    let mut world = World::system();
    world.clock = Arc::new(clock.clone());
    let cluster = cluster(&upstream, &ca);
    let proxy = Proxy::start_with(Simple::nothing(), &cluster, |options| {
        options.target = Target::new(&cluster, Crypto::aws_lc_rs(), &world).unwrap();
        options.hop = Hop::Plain;
        adjust(options);
    });
    (clock, upstream, proxy.await)
}

#[tokio::test]
async fn a_proxy_lingers_after_its_last_client_and_its_last_request() {
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
    assert_eq!(within(proxy.running).await.unwrap(), Ended::Unneeded);
}

#[tokio::test]
async fn a_client_without_a_lock_is_waited_for_as_long_as_it_may_go_without_asking() {
    let authority = Arc::new(Authority::fresh(SystemClock::new().now()).unwrap());
    let (clock, _upstream, proxy) = timed(|options| {
        options.loopback = Some(Loopback { port: 0, guise: Guise::Server, authority });
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
    assert_eq!(within(proxy.running).await.unwrap(), Ended::Unneeded);
}

#[tokio::test]
async fn a_watch_keeps_a_proxy_alive_and_old_age_ends_it_all_the_same() {
    let (clock, _upstream, proxy) = timed(|_| ()).await;
    let mut watch = proxy.send(proxy.get("/watch?count=1000000")).await;
    within(watch.body_mut().frame()).await.unwrap().unwrap();
    for _ in 0..10 {
        clock.advance(Duration::from_secs(3600));
        assert_eq!(proxy.control().status().await.unwrap().open, 1);
    }
    clock.advance(Duration::from_secs(2 * 3600));
    // The drain is timed by the same clock.
    let running = async {
        let mut running = proxy.running;
        loop {
            tokio::select! {
                ended = &mut running => return ended.unwrap(),
                () = tokio::time::sleep(Duration::from_millis(10)) => clock.advance(Duration::from_secs(10)),
            }
        }
    };
    assert_eq!(within(running).await, Ended::Old);
}

#[tokio::test]
async fn what_is_in_flight_at_the_end_is_answered_and_nobody_new_comes_in() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    let mut idle = proxy.connect().await;
    let mut watch = proxy.send(proxy.get("/watch?count=5&interval_ms=100")).await;
    within(watch.body_mut().frame()).await.unwrap().unwrap();
    proxy.control().stop().await.unwrap();
    // A connection without a request ends at once, and then the sockets are gone.
    assert_eq!(within(idle.read(&mut [0; 1])).await.unwrap(), 0);
    assert!(!proxy.dir.socket().exists() && !proxy.dir.is_served());
    let rest = within(watch.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(rest.split(|byte| *byte == b'\n').count(), 5, "four more lines and nothing after the last");
    assert_eq!(within(proxy.running).await.unwrap(), Ended::Told);
}

#[tokio::test]
async fn a_scrape_and_a_report_come_from_a_socket_that_knows_no_api() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
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
    assert_eq!(wrong.to_string(), "there is nothing to unlock");
    assert_eq!(upstream.counts().requests, 4);
}

#[tokio::test]
async fn who_has_connected_before_the_end_is_still_answered() {
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start(Simple::nothing(), &upstream, &ca).await;
    // The runtime has one thread: the proxy sees neither of them before we wait for something.
    let stream = std::os::unix::net::UnixStream::connect(proxy.dir.socket()).unwrap();
    let mut control = std::os::unix::net::UnixStream::connect(proxy.dir.control()).unwrap();
    let stop = "POST /stop HTTP/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n";
    std::io::Write::write_all(&mut control, stop.as_bytes()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut sender = speak(UnixStream::from_std(stream).unwrap()).await;
    let response = within(sender.send_request(proxy.get("/version"))).await.unwrap();
    assert!(response.status().is_success());
    assert_eq!(within(proxy.running).await.unwrap(), Ended::Told);
}
