//! Sockets that are shared with a group.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use credlet_proxy::server::{GroupSocket, ProxyServer, ServeError, ServerOptions};
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::FakeApiServer as Upstream;

use crate::support::{FakeSigner, TestProxy, cluster, target, within};

/// Unused group and user ids.
const GROUP: u32 = 64_001;
#[cfg(target_os = "linux")]
const OTHER_GROUP: u32 = 64_002;
#[cfg(target_os = "linux")]
const OTHER_USER: u32 = 64_003;

/// A group that this process may assign to a socket. Only root may assign one that it is not a member of.
fn group() -> u32 {
    if rustix::process::geteuid().is_root() { GROUP } else { rustix::process::getegid().as_raw() }
}

/// Result for another user on a socket: a status line, nothing, or the connection error. rustix sets the credentials of one thread on
/// Linux only.
#[cfg(target_os = "linux")]
async fn asked_by(uid: u32, gid: u32, groups: &[u32], socket: &Path, host: &str) -> String {
    use rustix::process::{Gid, Uid};
    let groups: Vec<_> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (socket, host) = (socket.to_owned(), host.to_owned());
    // The credentials of a thread can differ from those of its process. The thread exits after this.
    let asked = std::thread::spawn(move || {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::thread::set_thread_groups(&groups).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        ask(&socket, &host)
    });
    within(tokio::task::spawn_blocking(|| asked.join().unwrap())).await.unwrap()
}

fn ask(socket: &Path, host: &str) -> String {
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) => return error.kind().to_string(),
    };
    let _ = write!(stream, "GET /version HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut heard = String::new();
    let _ = stream.read_to_string(&mut heard);
    heard.lines().next().unwrap_or_default().to_owned()
}

async fn start(upstream: &Upstream, ca: &TestCa, dir: &Path) -> (TestProxy, PathBuf) {
    let shared = Some(GroupSocket { group: group(), dir: dir.to_owned() });
    let proxy =
        TestProxy::start_with(FakeSigner::nothing(), &cluster(upstream, ca), |options| options.shared = shared).await;
    let socket = proxy.control().status().await.unwrap().shared.unwrap();
    (proxy, socket.into())
}

fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.mode() & 0o777, found.gid())
}

#[tokio::test(flavor = "multi_thread")]
async fn group_socket_is_removed_at_shutdown() {
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let dir = home.path().join("shared");
    let (proxy, socket) = start(&upstream, &ca, &dir).await;
    assert_eq!(mode(&socket), (0o660, group()));
    assert_eq!(mode(socket.parent().unwrap()), (0o710, group()));
    assert_eq!(mode(&proxy.dir.socket()).0, 0o600, "the proxy's own is as without it");
    assert_eq!(mode(proxy.dir.path()).0, 0o700);
    let (path, host) = (socket.clone(), proxy.authority.clone());
    let answer = within(tokio::task::spawn_blocking(move || ask(&path, &host))).await.unwrap();
    assert_eq!(answer, "HTTP/1.1 200 OK");
    proxy.control().stop().await.unwrap();
    within(proxy.running).await.unwrap();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn only_group_members_may_connect() {
    // Changing the user needs root.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    open(home.path(), 0o755);
    let (proxy, socket) = start(&upstream, &ca, &home.path().join("shared")).await;
    let host = proxy.authority.clone();
    let denied = std::io::ErrorKind::PermissionDenied.to_string();
    assert_eq!(asked_by(OTHER_USER, GROUP, &[], &socket, &host).await, "HTTP/1.1 200 OK");
    assert_eq!(asked_by(OTHER_USER, OTHER_GROUP, &[GROUP], &socket, &host).await, "HTTP/1.1 200 OK");
    assert_eq!(asked_by(OTHER_USER, OTHER_GROUP, &[], &socket, &host).await, denied);
    for own in [proxy.dir.socket(), proxy.dir.control()] {
        assert_eq!(asked_by(OTHER_USER, GROUP, &[], &own, &host).await, denied, "the rest is its owner's alone");
    }
    // The mode is changed to allow everyone.
    open(socket.parent().unwrap(), 0o711);
    open(&socket, 0o666);
    assert_eq!(asked_by(OTHER_USER, OTHER_GROUP, &[], &socket, &host).await, "");
    assert_eq!(asked_by(OTHER_USER, GROUP, &[], &socket, &host).await, "HTTP/1.1 200 OK");
    let metrics = proxy.control().metrics().await.unwrap();
    assert!(metrics.contains("credlet_proxy_refused_connections_total 1\n"), "{metrics}");
}

#[tokio::test]
async fn writable_group_dir_is_rejected() {
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let wrong = home.path().join("open");
    fs::create_dir(&wrong).unwrap();
    for (mode, why) in [(0o777, Some("is open to other users")), (0o720, Some("(mode 0720)")), (0o755, None)] {
        open(&wrong, mode);
        let dir = credlet_proxy::dir::ProxyDir::open(home.path().join("d")).unwrap();
        let mut options = ServerOptions::new(target(&cluster(&upstream, &ca)), dir);
        options.shared = Some(GroupSocket { group: group(), dir: wrong.clone() });
        let bound = ProxyServer::bind(std::sync::Arc::new(FakeSigner::nothing()), options).await;
        match (bound, why) {
            (Err(ServeError::Dir(error)), Some(why)) => assert!(error.to_string().contains(why), "{error}"),
            (bound, why) => assert!(bound.is_ok() && why.is_none(), "{mode:o}: {bound:?}"),
        }
    }
}
