//! Proxies that share a port, because one kubeconfig names it and its clients differ.

use std::path::Path;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_client::conn::{Client, Payload, Proxy as HttpProxy};
use credlet_core::{Clock as _, SystemClock};
use credlet_proxy::dir::Dir;
use credlet_proxy::server::{Authority, Control, Ended, Guise, Loopback, Options, ServeError, Server};
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::server::Server as Upstream;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use crate::hop::{client_with, version};
use crate::streams::talker;
use crate::support::{Simple, cluster, target, within};

/// A port that nobody else gets while this is there. Nobody listens at it.
pub(crate) fn reserved() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

fn authority() -> Arc<Authority> {
    Arc::new(Authority::fresh(SystemClock::new().now()).unwrap())
}

/// Where they are, and where they listen.
struct Street {
    _home: tempfile::TempDir,
    dir: Dir,
    watch: Watch,
    ca: Ca,
    upstream: Upstream,
    authority: Arc<Authority>,
    guise: Guise,
    port: u16,
    _reserved: TcpSocket,
}

/// One of them, and the certificate that its clients get.
struct House {
    control: Control,
    given: ExecCredentialStatus,
    running: JoinHandle<Ended>,
}

impl Street {
    fn new(guise: Guise) -> Self {
        let (_home, ca) = (tempfile::tempdir().unwrap(), Ca::new());
        let dir = Dir::open(_home.path().join("street")).unwrap();
        let ((_reserved, port), (upstream, _)) = (reserved(), talker(&ca));
        Self { _home, dir, watch: Watch::new(), ca, upstream, authority: authority(), guise, port, _reserved }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    async fn bind(&self, name: &str, guise: Guise, authority: &Arc<Authority>) -> Result<Server, ServeError> {
        let dir = Dir::open(self.path().join(name)).unwrap();
        let mut options = Options::new(target(&cluster(&self.upstream, &self.ca)), dir);
        options.heeds_signals = false;
        options.loopback = Some(Loopback { port: self.port, guise, authority: Arc::clone(authority) });
        Server::bind(Arc::new(Simple::token(name)), options).await
    }

    /// Its token is its name.
    async fn house(&self, name: &str) -> House {
        let server = self.bind(name, self.guise, &self.authority).await.unwrap();
        let control = Control::of(&Dir::open(self.path().join(name)).unwrap()).unwrap();
        let running = tokio::spawn(server.run());
        let given = control.lease(None).await.unwrap().status;
        self.watch.adopt("client key", given.client_key_data.expose());
        House { control, given, running }
    }

    /// With no connection yet.
    fn client(&self, house: &House, http2: bool) -> Client {
        let given = Some((&*house.given.client_certificate_data, &house.given.client_key_data));
        let server = match self.guise {
            Guise::Server => format!("https://127.0.0.1:{}", self.port),
            Guise::Proxy => self.upstream.url(),
        };
        client_with(&server, self.authority.certificate(), given, |settings| {
            settings.tuning.http2 = http2;
            if self.guise == Guise::Proxy {
                let proxy = Secret::new(format!("http://127.0.0.1:{}", self.port));
                settings.proxy = Some(HttpProxy::parse(&proxy).unwrap());
            }
        })
    }
}

impl House {
    async fn leave(self) {
        self.control.stop().await.unwrap();
        assert_eq!(within(self.running).await.unwrap(), Ended::Told);
    }
}

/// The kernel deals out connections as it likes. Of so many, each of two gets some.
const MANY: usize = 12;

#[tokio::test]
async fn whoever_the_kernel_chooses_a_client_gets_the_proxy_that_it_means() {
    for guise in [Guise::Server, Guise::Proxy] {
        let street = Street::new(guise);
        let houses = [("one", street.house("one").await), ("two", street.house("two").await)];
        for round in 0..MANY {
            for (name, house) in &houses {
                let client = street.client(house, round % 2 == 0);
                assert!(version(&client).await.unwrap().starts_with("200 OK"), "{guise:?} {name}");
                assert_eq!(street.upstream.last_request().bearer(), Some(*name), "{guise:?} {round}");
            }
        }
    }
}

#[tokio::test]
async fn an_upgraded_connection_is_handed_over_too_and_either_side_may_end_first() {
    let street = Street::new(Guise::Server);
    let houses = [street.house("one").await, street.house("two").await];
    for round in 0..MANY {
        let client = street.client(&houses[round % 2], true);
        let request = Request::post("/exec").header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
        let mut response: Response<_> = within(client.send(request.body(Payload::empty()).unwrap())).await.unwrap();
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
async fn when_one_is_gone_its_clients_are_told_to_ask_again_and_nobody_answers_in_its_place() {
    let street = Street::new(Guise::Server);
    let (one, two) = (street.house("one").await, street.house("two").await);
    let (of_one, of_two) = (one.given.clone(), street.client(&two, true));
    one.leave().await;
    assert!(version(&of_two).await.unwrap().starts_with("200 OK"));
    let before = street.upstream.counts().requests;
    let given = Some((&*of_one.client_certificate_data, &of_one.client_key_data));
    for http2 in [true, false] {
        let url = format!("https://127.0.0.1:{}", street.port);
        let left = client_with(&url, street.authority.certificate(), given, |settings| settings.tuning.http2 = http2);
        let response = within(left.send(Request::get("/version").body(Payload::empty()).unwrap())).await.unwrap();
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()["exec-proxy-error"], "other-proxy");
        let body = within(response.into_body().collect()).await.unwrap().to_bytes();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&status["reason"], &status["code"]), (&"Unauthorized".into(), &401.into()));
    }
    assert_eq!(street.upstream.counts().requests, before);
    // With its plugin run again it is there again, under the same name, and knows the old certificate.
    let one = street.house("one").await;
    let one = House { given: of_one, ..one };
    for _ in 0..MANY {
        assert!(version(&street.client(&one, true)).await.unwrap().starts_with("200 OK"));
        assert_eq!(street.upstream.last_request().bearer(), Some("one"));
    }
    one.leave().await;
    two.leave().await;
    // Nothing is left, nor a claim to the port. A program that another test starts at this moment holds on to all that this
    // process has open, until it has begun; then the claim falls to whoever leaves next.
    within(async {
        while std::fs::read_dir(street.path()).unwrap().count() > 0 {
            street.house("three").await.leave().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_port_is_shared_with_those_alone_whom_clients_cannot_tell_apart() {
    let street = Street::new(Guise::Server);
    let one = street.house("one").await;
    for (guise, authority) in [(Guise::Server, authority()), (Guise::Proxy, Arc::clone(&street.authority))] {
        let error = street.bind("other", guise, &authority).await.unwrap_err();
        assert!(matches!(error, ServeError::OtherProxy { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("port {} of this machine", street.port)), "{error}");
    }
    one.leave().await;
    // Now it is anybody's.
    drop(street.bind("other", Guise::Server, &authority()).await.unwrap());

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let street = Street { port: listener.local_addr().unwrap().port(), ..street };
    let error = street.bind("other", Guise::Server, &street.authority).await.unwrap_err();
    assert!(matches!(error, ServeError::Port { .. }), "another program's is not ours to share: {error:?}");
}
