//! Daemons that share a port because one kubeconfig names it for different clients.

use std::path::Path;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_exec::{Clock as _, SystemClock};
use credlet_http::{HttpClient, ProxyAddr as HttpProxy, RequestBody};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{
    BridgeMode, ControlClient, LoopbackOptions, ProxyCa, ProxyServer, ServeError, ServerOptions, ShutdownReason,
};
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::server::FakeApiServer as Upstream;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use crate::socket_tls::{client_with, version};
use crate::streams::talker;
use crate::support::{FakeSigner, cluster, target, within};

/// Reserves a port without listening on it.
pub(crate) fn reserved() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

fn authority() -> Arc<ProxyCa> {
    Arc::new(ProxyCa::generate(SystemClock::new().now()).unwrap())
}

/// Directory and port of sibling daemons.
struct SharedPortSandbox {
    _home: tempfile::TempDir,
    dir: ProxyDir,
    watch: LeakCheck,
    ca: TestCa,
    upstream: Upstream,
    authority: Arc<ProxyCa>,
    mode: BridgeMode,
    port: u16,
    _reserved: TcpSocket,
}

/// A daemon and the certificate of its clients.
struct SiblingDaemon {
    control: ControlClient,
    given: ExecCredentialStatus,
    running: JoinHandle<ShutdownReason>,
}

impl SharedPortSandbox {
    fn new(mode: BridgeMode) -> Self {
        let (_home, ca) = (tempfile::tempdir().unwrap(), TestCa::new());
        let dir = ProxyDir::open(_home.path().join("parent_dir")).unwrap();
        let ((_reserved, port), (upstream, _)) = (reserved(), talker(&ca));
        Self { _home, dir, watch: LeakCheck::new(), ca, upstream, authority: authority(), mode, port, _reserved }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    async fn bind(&self, name: &str, mode: BridgeMode, authority: &Arc<ProxyCa>) -> Result<ProxyServer, ServeError> {
        let dir = ProxyDir::open(self.path().join(name)).unwrap();
        let mut options = ServerOptions::new(target(&cluster(&self.upstream, &self.ca)), dir);
        options.heeds_signals = false;
        options.loopback = Some(LoopbackOptions { port: self.port, mode, authority: Arc::clone(authority) });
        ProxyServer::bind(Arc::new(FakeSigner::token(name)), options).await
    }

    /// The token is the name of the daemon.
    async fn daemon(&self, name: &str) -> SiblingDaemon {
        let server = self.bind(name, self.mode, &self.authority).await.unwrap();
        let control = ControlClient::new(&ProxyDir::open(self.path().join(name)).unwrap()).unwrap();
        let running = tokio::spawn(server.run());
        let given = control.lease(None).await.unwrap().status;
        self.watch.adopt("client key", given.client_key_data.expose());
        SiblingDaemon { control, given, running }
    }

    /// A client without connections.
    fn client(&self, daemon: &SiblingDaemon, http2: bool) -> HttpClient {
        let given = Some((&*daemon.given.client_certificate_data, &daemon.given.client_key_data));
        let server = match self.mode {
            BridgeMode::Server => format!("https://127.0.0.1:{}", self.port),
            BridgeMode::ProxyUrl => self.upstream.url(),
        };
        client_with(&server, self.authority.certificate(), given, |settings| {
            settings.tuning.http2 = http2;
            if self.mode == BridgeMode::ProxyUrl {
                let proxy = Secret::new(format!("http://127.0.0.1:{}", self.port));
                settings.proxy = Some(HttpProxy::parse(proxy.expose()).unwrap());
            }
        })
    }
}

impl SiblingDaemon {
    async fn leave(self) {
        self.control.stop().await.unwrap();
        assert_eq!(within(self.running).await.unwrap(), ShutdownReason::Requested);
    }
}

/// Number of connections of which the kernel assigns some to each of two listeners.
const MANY: usize = 12;

#[tokio::test]
async fn client_reaches_the_issuing_daemon() {
    for mode in [BridgeMode::Server, BridgeMode::ProxyUrl] {
        let parent_dir = SharedPortSandbox::new(mode);
        let houses = [("one", parent_dir.daemon("one").await), ("two", parent_dir.daemon("two").await)];
        for round in 0..MANY {
            for (name, daemon) in &houses {
                let client = parent_dir.client(daemon, round % 2 == 0);
                assert!(version(&client).await.unwrap().starts_with("200 OK"), "{mode:?} {name}");
                assert_eq!(parent_dir.upstream.last_request().bearer(), Some(*name), "{mode:?} {round}");
            }
        }
    }
}

#[tokio::test]
async fn upgraded_connection_is_handed_over() {
    let parent_dir = SharedPortSandbox::new(BridgeMode::Server);
    let houses = [parent_dir.daemon("one").await, parent_dir.daemon("two").await];
    for round in 0..MANY {
        let client = parent_dir.client(&houses[round % 2], true);
        let request = Request::post("/exec").header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
        let mut response: Response<_> = within(client.send(request.body(RequestBody::empty()).unwrap())).await.unwrap();
        assert_eq!(response.status(), 101);
        let mut io = TokioIo::new(within(hyper::upgrade::on(&mut response)).await.unwrap());
        io.write_all(&vec![b'x'; 100_000]).await.unwrap();
        let mut echoed = vec![0; 100_000];
        within(io.read_exact(&mut echoed)).await.unwrap();
        io.shutdown().await.unwrap();
        let mut rest = String::new();
        within(io.read_to_string(&mut rest)).await.unwrap();
        assert_eq!(rest, "heard 100000");
    }
}

#[tokio::test]
async fn exited_daemon_clients_get_401() {
    let parent_dir = SharedPortSandbox::new(BridgeMode::Server);
    let (one, two) = (parent_dir.daemon("one").await, parent_dir.daemon("two").await);
    let (of_one, of_two) = (one.given.clone(), parent_dir.client(&two, true));
    one.leave().await;
    assert!(version(&of_two).await.unwrap().starts_with("200 OK"));
    let before = parent_dir.upstream.counts().requests;
    let given = Some((&*of_one.client_certificate_data, &of_one.client_key_data));
    for http2 in [true, false] {
        let url = format!("https://127.0.0.1:{}", parent_dir.port);
        let left =
            client_with(&url, parent_dir.authority.certificate(), given, |settings| settings.tuning.http2 = http2);
        let response = within(left.send(Request::get("/version").body(RequestBody::empty()).unwrap())).await.unwrap();
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()["exec-proxy-error"], "other-proxy");
        let body = within(response.into_body().collect()).await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&status["reason"], &status["code"]), (&"Unauthorized".into(), &401.into()));
    }
    assert_eq!(parent_dir.upstream.counts().requests, before);
    // After a restart under the same name it accepts the old certificate.
    let one = parent_dir.daemon("one").await;
    let one = SiblingDaemon { given: of_one, ..one };
    for _ in 0..MANY {
        assert!(version(&parent_dir.client(&one, true)).await.unwrap().starts_with("200 OK"));
        assert_eq!(parent_dir.upstream.last_request().bearer(), Some("one"));
    }
    one.leave().await;
    two.leave().await;
    // Nothing remains, including the port lock. A child process that another test is just starting may hold inherited
    // descriptors until it executes; then the next daemon removes the lock file.
    within(async {
        while std::fs::read_dir(parent_dir.path()).unwrap().count() > 0 {
            parent_dir.daemon("three").await.leave().await;
        }
    })
    .await;
}

#[tokio::test]
async fn port_is_shared_only_with_same_certificate() {
    let parent_dir = SharedPortSandbox::new(BridgeMode::Server);
    let one = parent_dir.daemon("one").await;
    for (mode, authority) in
        [(BridgeMode::Server, authority()), (BridgeMode::ProxyUrl, Arc::clone(&parent_dir.authority))]
    {
        let error = parent_dir.bind("other", mode, &authority).await.unwrap_err();
        assert!(matches!(error, ServeError::OtherProxy { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("port {} of 127.0.0.1", parent_dir.port)), "{error}");
    }
    one.leave().await;
    // The port is free now.
    drop(parent_dir.bind("other", BridgeMode::Server, &authority()).await.unwrap());

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let parent_dir = SharedPortSandbox { port: listener.local_addr().unwrap().port(), ..parent_dir };
    let error = parent_dir.bind("other", BridgeMode::Server, &parent_dir.authority).await.unwrap_err();
    assert!(matches!(error, ServeError::Port { .. }), "another program's is not ours to share: {error:?}");
}
