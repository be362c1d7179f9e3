//! Idle connections of this user.

use credlet_proxy::server::SocketProtocol;
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::FakeApiServer as Upstream;
use rustix::process::{Resource, getrlimit};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use crate::support::{FakeSigner, TestProxy, cluster, within};

/// Exceeds the limit of pending connections of a listener.
pub(crate) fn too_many() -> usize {
    usize::try_from(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(2048) / 8).unwrap() + 8
}

/// Without a limit they would stay open until the head timeout, which is longer than this test waits.
#[tokio::test]
async fn idle_connections_are_evicted() {
    let ca = TestCa::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = TestProxy::start_with(FakeSigner::nothing(), &cluster(&upstream, &ca), |options| {
        options.socket_protocol = SocketProtocol::Plain
    })
    .await;
    for path in [proxy.dir.socket(), proxy.dir.control()] {
        // After its first request a connection is not pending.
        let mut served = proxy.speak().await;
        assert!(within(served.send_request(proxy.get("/version"))).await.unwrap().status().is_success());
        let mut idle = Vec::new();
        for _ in 0..too_many() {
            idle.push(UnixStream::connect(&path).await.unwrap());
        }
        assert_eq!(within(idle[0].read(&mut [0])).await.unwrap(), 0, "{path:?}");
        let last = idle.last_mut().unwrap();
        assert_eq!(last.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert!(within(served.send_request(proxy.get("/version"))).await.unwrap().status().is_success());
        assert!(proxy.control().status().await.is_ok());
    }
}
