//! The life of a proxy: it listens, it serves, it sees that nobody needs it any more, it ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::{ExecCredentialStatus, ProxyConfig};
use credlet_client::conn;
use credlet_core::{Clock, OsError};
use jiff::SignedDuration;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::accept::{Connections, Doors, LoopbackDoor};
use super::authority::Authorities;
use super::control;
use super::leases::{Leases, Taken};
use super::listener::Place;
use super::local::{Authority, AuthorityError};
use super::metrics::{Elsewhere, Metrics};
use super::neighbours::Port;
use super::options::{Guise, Hop, Options};
use super::peer::Peers;
use super::shared::SharedDoor;
use super::stack::Stack;
use crate::dir::DirError;
use crate::policy::{Guard, Unclear};
use crate::sign::Signer;

/// For so long a proxy waits for its first client, however short its linger is.
const FIRST_CLIENT: Duration = Duration::from_secs(30);

/// For so long a client without a lock may go on without asking again. It has a certificate for longer, but who knows
/// whether it is still there.
const WITHOUT_LOCK: SignedDuration = SignedDuration::from_mins(10);

/// So much longer the proxy stays than it has told such a client: a request that leaves in the last moment should meet
/// somebody.
const LAST_MOMENT: Duration = Duration::from_secs(60);

/// Serves until nobody needs it any more. For a daemon that has told its starter that it listens, use [`Server::bind`]
/// and [`Server::run`].
///
/// # Errors
/// When it cannot begin.
pub async fn serve(signer: Arc<dyn Signer>, options: Options) -> Result<Ended, ServeError> {
    Ok(Server::bind(signer, options).await?.run().await)
}

/// A proxy that listens already and is about to be [run](Self::run).
#[derive(Debug)]
pub struct Server {
    pub(super) shared: Arc<Shared>,
    place: Place,
    doors: Doors,
    control: UnixListener,
    ending: watch::Sender<bool>,
    options: Options,
}

/// What the requests of clients and the questions about the proxy itself have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) stack: Arc<Stack>,
    pub(super) leases: Arc<Leases>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) began: jiff::Timestamp,
    pub(super) server: conn::Server,
    name: String,
    pub(super) socket: PathBuf,
    /// The one for a group.
    pub(super) shared_socket: Option<PathBuf>,
    pub(super) port: Option<u16>,
    pub(super) stop: Notify,
    /// `None`: the socket speaks no TLS.
    hop: Option<Arc<Authority>>,
    loopback: Option<Arc<Authority>>,
}

/// Why a proxy came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// No client needs it.
    Unneeded,
    /// Somebody told it to.
    Told,
    /// It has lived for as long as it may.
    Old,
}

impl Server {
    /// Listens. Connections are accepted from now on, and served when it is [run](Self::run).
    ///
    /// # Errors
    /// [`ServeError::Taken`] if there is one in this directory already; else whoever configured it must act.
    pub async fn bind(signer: Arc<dyn Signer>, options: Options) -> Result<Self, ServeError> {
        let mut settings = options.target.settings.clone();
        // A connection more costs a signature more, and that may be a touch.
        settings.tuning.lone_http1 = signer.person().is_none();
        let (clock, crypto, server) = (settings.clock.clone(), settings.crypto.clone(), settings.server.clone());
        let way = settings.proxy.as_ref().map(|proxy| proxy.target().clone());
        let (ending, told) = watch::channel(false);
        let (metrics, leases) = (Metrics::new(), Leases::new());
        for path in &options.leases {
            if leases.take(path).map_err(|error| ServeError::Lease { reason: error.into() })? == Taken::Gone {
                return Err(ServeError::ClientGone);
            }
        }
        let guard = Guard::new(options.policies.clone(), &options.target.path)?;
        let stack = Stack {
            signer,
            guard,
            upstream: conn::Client::new(settings)?,
            losses: AtomicU64::new(0),
            metrics: Arc::clone(&metrics),
            clock: Arc::clone(&clock),
            ending: told,
        };

        let place = Place::take(options.dir.clone()).await?;
        let peers = Peers::new(options.also_serve.clone());

        let hop = match options.hop {
            Hop::Tls => Some(Arc::new(Authority::fresh(clock.now())?)),
            Hop::Plain => None,
        };
        let tls = |authority: &Arc<Authority>| authority.server_config(&crypto);
        let (mut loopback, mut port) = (None, None);
        if let Some(wanted) = &options.loopback {
            if way.is_some_and(|way| conn::is_loopback(way.host()) && way.port() == wanted.port) {
                return Err(ServeError::Circle { port: wanted.port });
            }
            let bound = Port::open(wanted, &options.dir)?;
            port = Some(bound.number);
            // A proxy is never called by its own name.
            let own = port.filter(|_| wanted.guise == Guise::Server);
            let (tls, authorities) = (tls(&wanted.authority)?, authorities(&server, own)?);
            let beside = place.listen(options.dir.beside())?;
            loopback = Some(LoopbackDoor { port: bound, beside, guise: wanted.guise, tls, authorities });
        }
        let socket_tls = hop.as_ref().map(tls).transpose()?;
        let socket_authorities = authorities(&server, None)?;
        let for_group = options.shared.as_ref().map(|wanted| SharedDoor::open(wanted, &place, &options.dir));
        let for_group = for_group.transpose()?;
        let shared_socket = for_group.as_ref().map(|door| door.path().to_owned());
        let control = place.listen(options.dir.control())?;
        // Last: whoever finds it may take everything else for granted.
        let socket = place.listen(options.dir.socket())?;
        let doors = Doors { socket, peers, socket_tls, socket_authorities, loopback, shared: for_group };

        let shared = Shared {
            stack: Arc::new(stack),
            leases,
            metrics,
            began: clock.now(),
            clock,
            server,
            name: options.dir.name().to_owned(),
            socket: options.dir.socket(),
            shared_socket,
            port,
            stop: Notify::new(),
            hop,
            loopback: options.loopback.as_ref().map(|loopback| Arc::clone(&loopback.authority)),
        };
        Ok(Self { shared: Arc::new(shared), place, doors, control, ending, options })
    }

    /// What a plugin that is the proxy answers: the socket, and what to show there.
    ///
    /// # Errors
    /// When no certificate could be made.
    pub fn answer(&self) -> Result<ExecCredentialStatus, ServeError> {
        Ok(self.shared.answer()?)
    }

    /// The port of 127.0.0.1, if it listens at one.
    pub fn port(&self) -> Option<u16> {
        self.shared.port
    }

    /// Serves until nobody needs it any more, it is told to end, or it is too old. Then new connections go to the next
    /// proxy, requests in flight are given the drain limit, and upgraded connections are cut.
    pub async fn run(self) -> Ended {
        let mut connections = Connections::new(Arc::clone(&self.shared.stack), self.ending.subscribe());
        let mut questions = JoinSet::new();
        let ended = {
            let life = live(&self.shared, &self.options);
            tokio::pin!(life);
            loop {
                tokio::select! {
                    ended = &mut life => break ended,
                    () = connections.accept(&self.doors) => {}
                    () = control::accept(&self.control, &self.shared, &mut questions) => {}
                }
            }
        };
        tracing::info!(?ended, "the proxy ends");
        // In this order: nobody finds us any more; who had found us comes in, and may say what it wants; the port is
        // free; the next proxy may come; those who are here are seen off.
        self.shared.leases.shut();
        self.place.hide();
        self.doors.shared.iter().for_each(SharedDoor::hide);
        connections.accept_waiting(&self.doors).await;
        drop((self.doors, self.control));
        self.place.leave();
        self.ending.send_replace(true);
        let drained = async {
            connections.ended().await;
            while questions.join_next().await.is_some() {}
        };
        tokio::select! {
            () = drained => {}
            () = self.shared.clock.sleep(self.options.drain) => {}
        }
        self.shared.stack.signer.close();
        ended
    }
}

fn authorities(server: &conn::Server, port: Option<u16>) -> Result<Arc<Authorities>, ServeError> {
    Authorities::new(server, port)
        .map(Arc::new)
        .map_err(|_| ServeError::Target(conn::Error::Server { reason: "has a host that no request can name" }))
}

impl Shared {
    /// For a client that can be sent to a socket.
    pub(super) fn answer(&self) -> Result<ExecCredentialStatus, AuthorityError> {
        let url = socket_url(&self.socket);
        let Some(hop) = &self.hop else {
            let proxy_config = Some(ProxyConfig { url, ..ProxyConfig::default() });
            return Ok(ExecCredentialStatus { proxy_config, ..ExecCredentialStatus::default() });
        };
        let client = hop.client(&self.name, self.clock.now())?;
        let certificate_authority_data = hop.certificate().as_bytes().to_vec();
        let status = ExecCredentialStatus {
            proxy_config: Some(ProxyConfig { url, certificate_authority_data }),
            ..ExecCredentialStatus::certificate(client.certificate, client.key)
        };
        Ok(status.expiring(client.not_after - SignedDuration::from_mins(5)))
    }

    /// For a client that knows nothing of sockets and locks: a certificate for the port, which it asks for again while
    /// it lives, and which the proxy stays for until then. `None`: there is no port.
    pub(super) fn answer_for_port(&self) -> Option<Result<ExecCredentialStatus, AuthorityError>> {
        let authority = self.loopback.as_ref()?;
        let now = self.clock.now();
        Some(authority.client(&self.name, now).map(|client| {
            let until = client.not_after.min(now + WITHOUT_LOCK);
            ExecCredentialStatus::certificate(client.certificate, client.key).expiring(until)
        }))
    }

    /// Stays for a client that has no lock. False: too late.
    pub(super) fn stay(&self) -> bool {
        let some = Duration::try_from(WITHOUT_LOCK).unwrap_or_default();
        self.leases.take_until(self.clock.monotonic() + some + LAST_MOMENT)
    }

    pub(super) fn elsewhere(&self) -> Elsewhere {
        Elsewhere {
            leases: *self.leases.held().borrow(),
            handshakes: self.stack.upstream.connections(),
            signatures: self.stack.signer.signatures(),
        }
    }

    pub(super) fn wants(&self) -> Option<String> {
        self.stack.signer.wants()
    }

    pub(super) async fn unlock(&self, answer: Secret) -> Result<(), crate::sign::SignError> {
        self.stack.signer.unlock(answer).await
    }
}

/// Returns when it is time to end.
async fn live(shared: &Shared, options: &Options) -> Ended {
    tokio::select! {
        () = shared.stop.notified() => Ended::Told,
        () = told_by_signal(options.heeds_signals) => Ended::Told,
        () = shared.clock.sleep(options.max_life) => Ended::Old,
        () = unneeded(shared, options.linger) => Ended::Unneeded,
    }
}

/// Never returns if signals are none of our business.
async fn told_by_signal(heeds: bool) {
    let caught = heeds.then(|| Some((signal(SignalKind::terminate()).ok()?, signal(SignalKind::interrupt()).ok()?)));
    let Some((mut terminate, mut interrupt)) = caught.flatten() else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Returns when there has been no client for as long as `linger`, and no request.
async fn unneeded(shared: &Shared, linger: Duration) {
    let clock = &shared.clock;
    let mut held = shared.leases.held();
    let mut since = clock.monotonic();
    loop {
        if *held.borrow_and_update() > 0 {
            // The leases live as long as we do.
            let _ = held.wait_for(|held| *held == 0).await;
            since = clock.monotonic();
        }
        // Not by who is there now: the first client may have died before anybody looked, and there will be no other
        // where the plugin is the proxy.
        let patience = if shared.leases.any_yet() { linger } else { linger.max(FIRST_CLIENT) };
        let now = clock.monotonic();
        let busy = shared.metrics.in_flight() > 0 && !patience.is_zero();
        let idle = if busy { now } else { since.max(shared.metrics.last_end()) };
        let until = (idle + patience).max(shared.leases.until());
        if until <= now && shared.leases.close(now) {
            return;
        }
        tokio::select! {
            () = clock.sleep(until.saturating_sub(now).max(Duration::from_millis(10))) => {}
            // Somebody has come, and has perhaps gone again.
            _ = held.changed() => since = clock.monotonic(),
        }
    }
}

/// The path as a URL has it.
fn socket_url(path: &std::path::Path) -> String {
    let mut url = String::from("unix://");
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => url.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => url.push(byte.into()),
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// Why a proxy did not begin, by who must act.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Nobody: there is one already, which will do.
    #[error("there is another proxy in this directory")]
    Taken,
    /// Nobody: the client that wanted it is gone.
    #[error("the client that wanted this proxy is gone")]
    ClientGone,
    /// Whoever owns the directory.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// Whoever chose the directory.
    #[error("{} has more than the {longest} bytes that the path of a socket may have", credlet_api::visible(&path.to_string_lossy()))]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// How long it may be.
        longest: usize,
    },
    /// Whoever chose the port, or has it.
    #[error("port {port} of this machine cannot be listened at: {reason}")]
    Port {
        /// Which.
        port: u16,
        /// The system's reason.
        reason: OsError,
    },
    /// Whoever wrote the kubeconfig, or runs the other proxy.
    #[error("port {port} of this machine is in use by another proxy of this user's, which other kubeconfigs are for")]
    OtherProxy {
        /// Which.
        port: u16,
    },
    /// Whoever wrote the kubeconfig or set the environment.
    #[error(
        "port {port} of this machine, where this proxy is to listen, is also the proxy on its way to the API server"
    )]
    Circle {
        /// Which.
        port: u16,
    },
    /// Whoever runs this system.
    #[error("the proxy's socket cannot be made: {reason}")]
    Listen {
        /// The system's reason.
        reason: OsError,
    },
    /// The client, whose lock file it is.
    #[error("the client's lock file cannot be used: {reason}")]
    Lease {
        /// The system's reason.
        reason: OsError,
    },
    /// Whoever wrote the kubeconfig.
    #[error(transparent)]
    Target(#[from] conn::Error),
    /// Whoever wrote the kubeconfig, or wants a policy.
    #[error("no policy can be held at the address of this API server: {0}")]
    Policy(#[from] Unclear),
    /// See there.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use credlet_api::exec::Cluster;
    use credlet_client::conn::{Credential, Crypto};
    use credlet_core::{ManualClock, World};

    use super::super::Target;
    use super::*;
    use crate::dir::Dir;
    use crate::sign::Signing;

    #[derive(Debug)]
    struct Nobody;

    impl Signer for Nobody {
        fn credential(&self) -> Signing<'_, Credential> {
            Box::pin(async { Ok(Credential::default()) })
        }
    }

    /// A proxy that does not linger, about to run. Its clock stands still.
    async fn bound(home: &Path, leases: Vec<PathBuf>) -> (ManualClock, Server) {
        let clock = ManualClock::new(jiff::Timestamp::UNIX_EPOCH);
        let mut world = World::system();
        world.clock = Arc::new(clock.clone());
        let cluster = Cluster { server: "http://127.0.0.1:1".into(), ..Cluster::default() };
        let target = Target::new(&cluster, Crypto::aws_lc_rs(), &world).unwrap();
        let mut options = Options::new(target, Dir::open(home.join("d")).unwrap());
        (options.leases, options.linger, options.hop) = (leases, Duration::ZERO, Hop::Plain);
        options.heeds_signals = false;
        (clock, Server::bind(Arc::new(Nobody), options).await.unwrap())
    }

    /// How it ended. A test that would hang fails instead.
    async fn ended(running: impl Future<Output = Ended>) -> Ended {
        tokio::time::timeout(Duration::from_secs(60), running).await.unwrap()
    }

    #[tokio::test]
    async fn a_proxy_whose_client_is_gone_before_it_runs_waits_for_no_other() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        // Its client is killed already: the file is there, and nobody has it locked.
        File::create(&path).unwrap();
        let (_clock, server) = bound(home.path(), vec![path]).await;
        server.shared.leases.held().wait_for(|held| *held == 0).await.unwrap();
        assert_eq!(ended(server.run()).await, Ended::Unneeded);
    }

    #[tokio::test]
    async fn a_daemon_waits_for_its_first_client_and_not_for_another_when_that_one_came_and_went() {
        let home = tempfile::tempdir().unwrap();
        let (clock, server) = bound(home.path(), Vec::new()).await;
        let running = tokio::spawn(server.run());
        tokio::task::yield_now().await;
        clock.advance(FIRST_CLIENT - Duration::from_secs(1));
        tokio::task::yield_now().await;
        assert!(!running.is_finished(), "somebody started it");
        clock.advance(Duration::from_secs(1));
        assert_eq!(ended(async { running.await.unwrap() }).await, Ended::Unneeded);

        let (_clock, server) = bound(home.path(), Vec::new()).await;
        let (leases, path) = (Arc::clone(&server.shared.leases), home.path().join("lock"));
        let running = tokio::spawn(server.run());
        tokio::task::yield_now().await;
        File::create(&path).unwrap();
        assert_eq!(leases.take(&path).unwrap(), Taken::Held);
        // The runtime has one thread, which is this one: the proxy does not see it before it is over.
        while *leases.held().borrow() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(ended(async { running.await.unwrap() }).await, Ended::Unneeded);
    }

    #[test]
    fn a_path_becomes_a_url_whatever_is_in_it() {
        let url = |path: &str| socket_url(Path::new(path));
        assert_eq!(url("/run/user/1000/credlet/0a/s.sock"), "unix:///run/user/1000/credlet/0a/s.sock");
        assert_eq!(url("/tmp/a b%?#é"), "unix:///tmp/a%20b%25%3F%23%C3%A9");
    }
}
