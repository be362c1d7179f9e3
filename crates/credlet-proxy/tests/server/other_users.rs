//! Connections of other users, made by a thread of root with other credentials, which rustix sets on Linux only.

#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::io::Read as _;
use std::net::TcpStream;
use std::sync::Arc;

use credlet_exec::{Clock as _, SystemClock};
use credlet_proxy::server::{BridgeMode, LoopbackOptions, ProxyCa};
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::FakeApiServer as Upstream;
use rustix::process::{Gid, Uid};

use crate::pending::too_many;
use crate::socket_tls::{client, version};
use crate::support::{FakeSigner, TestProxy, cluster, within};

#[tokio::test(flavor = "multi_thread")]
async fn port_rejects_other_users_early() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can connect as another user");
        return;
    }
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    for mode in [BridgeMode::Server, BridgeMode::ProxyUrl] {
        let authority = Arc::new(ProxyCa::generate(SystemClock::new().now()).unwrap());
        let loopback = Some(LoopbackOptions { port: 0, mode, authority: authority.clone() });
        let proxy = TestProxy::start_with(FakeSigner::nothing(), &cluster(&upstream, &ca), |options| {
            options.loopback = loopback
        })
        .await;
        let port = proxy.port.unwrap();
        // The credentials of a thread can differ from those of its process. The thread exits after this.
        let connected = std::thread::spawn(move || {
            let (uid, gid) = (Uid::from_raw(64_003), Gid::from_raw(64_003));
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            let mut streams: Vec<_> = (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
            streams.iter_mut().map(|stream| stream.read(&mut [0]).unwrap_or(0)).sum::<usize>()
        });
        let read = within(tokio::task::spawn_blocking(|| connected.join().unwrap())).await.unwrap();
        assert_eq!(read, 0);
        let metrics = proxy.control().metrics().await.unwrap();
        assert!(metrics.contains("credlet_proxy_refused_connections_total 20\n"), "{metrics}");
        if mode == BridgeMode::Server {
            let given = proxy.control().lease(None).await.unwrap().status;
            let given = Some((&*given.client_certificate_data, &given.client_key_data));
            let own = client(&format!("https://127.0.0.1:{port}"), authority.certificate(), given, None, true);
            assert!(version(&own).await.unwrap().starts_with("200 OK"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn group_members_have_a_quota() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can connect as another user");
        return;
    }
    let (ca, home) = (TestCa::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), open).unwrap();
    let shared = credlet_proxy::server::GroupSocket { group: 64_001, dir: home.path().join("shared") };
    let proxy =
        TestProxy::start_with(FakeSigner::nothing(), &cluster(&upstream, &ca), |options| options.shared = Some(shared))
            .await;
    let socket = proxy.control().status().await.unwrap().shared.unwrap();
    let count = too_many();
    let first = std::thread::spawn(move || {
        let (uid, gid) = (Uid::from_raw(64_003), Gid::from_raw(64_001));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let connect = |_| std::os::unix::net::UnixStream::connect(&socket).unwrap();
        let mut streams: Vec<_> = (0..count).map(connect).collect();
        streams[0].read(&mut [0]).unwrap_or(0)
    });
    assert_eq!(within(tokio::task::spawn_blocking(|| first.join().unwrap())).await.unwrap(), 0);
    // The owner's socket has a separate limit.
    assert!(proxy.control().status().await.is_ok());
}
