//! Start, serving, idle detection and shutdown of a proxy.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::{ExecCredentialStatus, ProxyConfig};
use credlet_exec::{Clock, OsError};
use credlet_platform::daemon;
use credlet_platform::local_socket::LocalListener;
use jiff::SignedDuration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::accept::{ConnectionSet, Listeners, LoopbackListener};
use super::authority::AllowedAuthorities;
use super::control;
use super::group_listener::GroupListener;
use super::leases::{ClientLeases, LeaseOutcome};
use super::listener::OwnedDir;
use super::metrics::{ExternalCounts, ProxyMetrics};
use super::options::{BridgeMode, ServerOptions, SocketProtocol};
use super::peer::AllowedPeers;
use super::pending::{ConnectionLimits, PeerOwners, PendingConnections};
use super::pipeline::RequestPipeline;
use super::proxy_ca::{ProxyCa, ProxyCaError};
use super::siblings::SharedPort;
use crate::dir::DirError;
use crate::endpoint::ProxyEndpoint;
use crate::policy::{AmbiguousPath, PolicySet};
use crate::sign::Signer;

/// Minimum time to wait for the first client, even if the linger time is shorter.
const FIRST_CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Lease of a client without a lock file. Its certificate is valid for longer, but the client may have exited.
const LOCKLESS_LEASE: SignedDuration = SignedDuration::from_mins(10);

/// Margin on that lease, for requests that are sent at its end.
const LOCKLESS_LEASE_MARGIN: Duration = Duration::from_secs(60);

/// Time for callers of `/stop?wait` to receive the response.
const STOP_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves until no client needs the proxy. A daemon that must report when it listens uses [`ProxyServer::bind`] and
/// [`ProxyServer::run`].
///
/// # Errors
/// If the proxy cannot start.
pub async fn serve(signer: Arc<dyn Signer>, options: ServerOptions) -> Result<ShutdownReason, ServeError> {
    Ok(ProxyServer::bind(signer, options).await?.run().await)
}

/// A proxy that is listening, to be [run](Self::run).
#[derive(Debug)]
pub struct ProxyServer {
    pub(super) shared: Arc<ServerState>,
    owned_dir: OwnedDir,
    listeners: Listeners,
    control: LocalListener,
    shutdown: watch::Sender<bool>,
    options: ServerOptions,
}

/// State shared by API requests and control requests.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) pipeline: Arc<RequestPipeline>,
    pub(super) leases: Arc<ClientLeases>,
    pub(super) metrics: Arc<ProxyMetrics>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) began: jiff::Timestamp,
    pub(super) server: credlet_http::ServerAddr,
    name: String,
    pub(super) socket: PathBuf,
    /// Socket for a group.
    pub(super) shared_socket: Option<PathBuf>,
    pub(super) port: Option<u16>,
    pub(super) stop: Notify,
    pub(super) closed: SignerClosed,
    /// `None`: plain HTTP on the socket.
    socket_ca: Option<Arc<ProxyCa>>,
    loopback: Option<Arc<ProxyCa>>,
}

/// Notifies the callers of `/stop?wait` when the signer has been closed.
#[derive(Debug, Default)]
pub(super) struct SignerClosed {
    closed: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

impl SignerClosed {
    /// Returns when the signer has been closed.
    pub(super) async fn wait(&self) {
        struct Waiting<'a>(&'a watch::Sender<usize>);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.send_modify(|waiting| *waiting -= 1);
            }
        }
        self.waiting.send_modify(|waiting| *waiting += 1);
        let _waiting = Waiting(&self.waiting);
        // The sender is `self`, so this cannot fail.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Returns when `open` has only callers of `wait` left.
    async fn only_waiting(&self, open: &mut JoinSet<()>) {
        let mut waiting = self.waiting.subscribe();
        while open.len() > *waiting.borrow_and_update() {
            tokio::select! {
                _ = open.join_next() => {}
                _ = waiting.changed() => {}
            }
        }
    }
}

/// Reason of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownReason {
    /// No client needs the proxy.
    Idle,
    /// A signal or a request on the control socket.
    Requested,
    /// The maximum lifetime is over.
    MaxLifetime,
}

impl ProxyServer {
    /// Starts listening. The kernel queues connections until the proxy is [run](Self::run).
    ///
    /// # Errors
    /// [`ServeError::AlreadyRunning`] if a proxy is running in this directory.
    pub async fn bind(signer: Arc<dyn Signer>, options: ServerOptions) -> Result<Self, ServeError> {
        let mut settings = options.target.settings.clone();
        // Each additional connection costs a signature, which may need a touch of the key.
        settings.tuning.prefer_http1_when_idle = signer.user_action_required().is_none();
        let (clock, crypto, server) = (settings.clock.clone(), settings.crypto.clone(), settings.server.clone());
        let upstream_proxy = settings.proxy.as_ref().map(|proxy| proxy.target().clone());
        let (shutdown, shutdown_rx) = watch::channel(false);
        let (metrics, leases) = (ProxyMetrics::new(), ClientLeases::new());
        for path in &options.leases {
            if leases.take(path).map_err(|error| ServeError::Lease { reason: error.into() })?
                == LeaseOutcome::ClientExited
            {
                return Err(ServeError::ClientGone);
            }
        }
        let policies = PolicySet::new(options.policies.clone(), &options.target.path)?;
        let pipeline = RequestPipeline {
            signer,
            policies,
            upstream: credlet_http::HttpClient::new(settings)?,
            losses: AtomicU64::new(0),
            metrics: Arc::clone(&metrics),
            clock: Arc::clone(&clock),
            shutdown: shutdown_rx,
        };

        let owned_dir = OwnedDir::acquire(options.dir.clone()).await?;
        let peers = AllowedPeers::new(options.also_serve.clone());

        let socket_ca = match options.socket_protocol {
            SocketProtocol::Tls => Some(Arc::new(ProxyCa::generate(clock.now())?)),
            SocketProtocol::Plain => None,
        };
        let tls = |authority: &Arc<ProxyCa>| authority.server_config(&crypto);
        let (mut loopback, mut port) = (None, None);
        if let Some(requested) = &options.loopback {
            if upstream_proxy.is_some_and(|upstream_proxy| {
                credlet_http::is_loopback(upstream_proxy.host()) && upstream_proxy.port() == requested.port
            }) {
                return Err(ServeError::Circle { port: requested.port });
            }
            let bound = SharedPort::open(requested, &options.dir)?;
            port = Some(bound.number);
            // Clients of a proxy port never use its own name as the authority.
            let own = port.filter(|_| requested.mode == BridgeMode::Server);
            let (tls, authorities) = (tls(&requested.authority)?, authorities(&server, own)?);
            let handover = owned_dir.listen(options.dir.handover_socket())?;
            let owners = Arc::new(PeerOwners::new((Ipv4Addr::LOCALHOST, bound.number).into()));
            loopback = Some(LoopbackListener { port: bound, handover, mode: requested.mode, tls, authorities, owners });
        }
        let socket_tls = socket_ca.as_ref().map(tls).transpose()?;
        let socket_authorities = authorities(&server, None)?;
        let for_group =
            options.shared.as_ref().map(|requested| GroupListener::open(requested, &owned_dir, &options.dir));
        let for_group = for_group.transpose()?;
        let shared_socket = for_group.as_ref().map(|listener| listener.path().to_owned());
        let control = owned_dir.listen(options.dir.control())?;
        // Last, because clients use this socket as the sign that the proxy is ready.
        let socket = owned_dir.listen(options.dir.socket())?;
        let listeners = Listeners { socket, peers, socket_tls, socket_authorities, loopback, shared: for_group };

        let shared = ServerState {
            pipeline: Arc::new(pipeline),
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
            closed: SignerClosed::default(),
            socket_ca,
            loopback: options.loopback.as_ref().map(|loopback| Arc::clone(&loopback.authority)),
        };
        Ok(Self { shared: Arc::new(shared), owned_dir, listeners, control, shutdown, options })
    }

    /// Returns the credential for the client of a plugin that is the proxy itself: the socket and a client certificate.
    ///
    /// # Errors
    /// If the client certificate cannot be generated.
    pub fn credential_status(&self) -> Result<ExecCredentialStatus, ServeError> {
        Ok(self.shared.credential_status()?)
    }

    /// The port of 127.0.0.1, if there is one.
    pub fn port(&self) -> Option<u16> {
        self.shared.port
    }

    /// Serves until no client needs the proxy, a shutdown is requested, or the maximum lifetime is over. Then new
    /// connections go to the next proxy, requests in flight have the drain timeout, and upgraded connections are
    /// closed.
    pub async fn run(self) -> ShutdownReason {
        let mut connections = ConnectionSet::new(Arc::clone(&self.shared.pipeline), self.shutdown.subscribe());
        let mut control_requests = JoinSet::new();
        let pending_control = PendingConnections::new(ConnectionLimits::of_this_process().handshakes);
        let reason = {
            let life = shutdown_reason(&self.shared, &self.options);
            tokio::pin!(life);
            loop {
                tokio::select! {
                    reason = &mut life => break reason,
                    () = connections.accept(&self.listeners) => {}
                    () = control::accept(&self.control, &self.shared, &mut control_requests, &pending_control) => {}
                }
            }
        };
        tracing::info!(reason = ?reason, "proxy shutting down");
        // The order matters: remove the names of the sockets, accept the connections in the backlog, close the
        // listeners, release the directory for the next proxy, then drain the connections.
        self.shared.leases.stop_accepting();
        self.owned_dir.unlink();
        self.listeners.shared.iter().for_each(GroupListener::unlink);
        connections.accept_backlog(&self.listeners).await;
        drop((self.listeners, self.control));
        self.owned_dir.release();
        self.shutdown.send_replace(true);
        let drained = async {
            connections.drain().await;
            self.shared.closed.only_waiting(&mut control_requests).await;
        };
        tokio::select! {
            () = drained => {}
            () = self.shared.clock.sleep(self.options.drain) => {}
        }
        self.shared.pipeline.signer.close();
        self.shared.closed.closed.send_replace(true);
        let shutdown_rx = async { while control_requests.join_next().await.is_some() {} };
        tokio::select! {
            () = shutdown_rx => {}
            () = self.shared.clock.sleep(STOP_RESPONSE_TIMEOUT) => {}
        }
        reason
    }
}

fn authorities(server: &credlet_http::ServerAddr, port: Option<u16>) -> Result<Arc<AllowedAuthorities>, ServeError> {
    AllowedAuthorities::new(server, port).map(Arc::new).map_err(|_| {
        ServeError::Connection(credlet_http::HttpError::InvalidServer {
            reason: "has a host that is not valid in a request",
        })
    })
}

impl ServerState {
    /// Credential for a client that can use the socket.
    pub(super) fn credential_status(&self) -> Result<ExecCredentialStatus, ProxyCaError> {
        let url = ProxyEndpoint::Unix(self.socket.clone()).to_string();
        let Some(socket_ca) = &self.socket_ca else {
            let proxy_config = Some(ProxyConfig { url, ..ProxyConfig::default() });
            return Ok(ExecCredentialStatus { proxy_config, ..ExecCredentialStatus::default() });
        };
        let client = socket_ca.client(&self.name, self.clock.now())?;
        let certificate_authority_data = socket_ca.certificate().as_bytes().to_vec();
        let status = ExecCredentialStatus {
            proxy_config: Some(ProxyConfig { url, certificate_authority_data }),
            ..ExecCredentialStatus::certificate(client.certificate, client.key)
        };
        Ok(status.with_expiration(client.not_after - SignedDuration::from_mins(5)))
    }

    /// Credential for a client that uses the port: a certificate whose expiry makes the client run its plugin again, up
    /// to which the proxy stays. `None` if there is no port.
    pub(super) fn port_credential(&self) -> Option<Result<ExecCredentialStatus, ProxyCaError>> {
        let authority = self.loopback.as_ref()?;
        let now = self.clock.now();
        Some(authority.client(&self.name, now).map(|client| {
            let until = client.not_after.min(now + LOCKLESS_LEASE);
            ExecCredentialStatus::certificate(client.certificate, client.key).with_expiration(until)
        }))
    }

    /// Extends the lease for clients without a lock file. Returns false if the proxy is shutting down.
    pub(super) fn extend_lockless_lease(&self) -> bool {
        let some = Duration::try_from(LOCKLESS_LEASE).unwrap_or_default();
        self.leases.extend_until(self.clock.monotonic() + some + LOCKLESS_LEASE_MARGIN)
    }

    pub(super) fn external_counts(&self) -> ExternalCounts {
        ExternalCounts {
            leases: *self.leases.held().borrow(),
            handshakes: self.pipeline.upstream.connections_opened(),
            signatures: self.pipeline.signer.signature_count(),
        }
    }

    pub(super) fn unlock_prompt(&self) -> Option<String> {
        self.pipeline.signer.unlock_prompt()
    }

    pub(super) async fn unlock(&self, secret: Secret) -> Result<(), crate::sign::SignError> {
        self.pipeline.signer.unlock(secret).await
    }
}

/// Returns when the proxy should shut down.
async fn shutdown_reason(shared: &ServerState, options: &ServerOptions) -> ShutdownReason {
    tokio::select! {
        () = shared.stop.notified() => ShutdownReason::Requested,
        () = shutdown_signal(options.heeds_signals) => ShutdownReason::Requested,
        () = shared.clock.sleep(options.max_life) => ShutdownReason::MaxLifetime,
        () = wait_until_idle(shared, options.linger) => ShutdownReason::Idle,
    }
}

/// Pending forever if signals are not handled.
async fn shutdown_signal(enabled: bool) {
    if !enabled {
        return std::future::pending().await;
    }
    daemon::shutdown_signal().await;
}

/// Returns when there have been no clients and no requests for the linger time.
async fn wait_until_idle(shared: &ServerState, linger: Duration) {
    let clock = &shared.clock;
    let mut held = shared.leases.held();
    let mut since = clock.monotonic();
    loop {
        if *held.borrow_and_update() > 0 {
            // The sender lives as long as the proxy.
            let _ = held.wait_for(|held| *held == 0).await;
            since = clock.monotonic();
        }
        // Not by the current number: the first client may have exited already, and a plugin that is the proxy itself
        // gets no other.
        let idle_timeout = if shared.leases.had_client() { linger } else { linger.max(FIRST_CLIENT_TIMEOUT) };
        let now = clock.monotonic();
        let busy = shared.metrics.in_flight() > 0 && !idle_timeout.is_zero();
        let idle = if busy { now } else { since.max(shared.metrics.last_end()) };
        let until = (idle + idle_timeout).max(shared.leases.until());
        if until <= now && shared.leases.close_if_idle(now) {
            return;
        }
        tokio::select! {
            () = clock.sleep(until.saturating_sub(now).max(Duration::from_millis(10))) => {}
            // A client came and may already have exited.
            _ = held.changed() => since = clock.monotonic(),
        }
    }
}

/// A proxy that could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A proxy is running in this directory.
    #[error("a proxy is already running in this directory")]
    AlreadyRunning,
    /// The client that started this proxy has exited.
    #[error("the client has exited already")]
    ClientGone,
    /// The directory is not usable.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// A socket path is too long.
    #[error("invalid socket path: {} is longer than {longest} bytes", credlet_api::escape_control_chars(&path.to_string_lossy()))]
    PathTooLong {
        /// The socket path.
        path: PathBuf,
        /// Limit in bytes.
        longest: usize,
    },
    /// The port is not available.
    #[error("failed to listen on port {port} of 127.0.0.1: {reason}")]
    Port {
        /// TCP port of the configuration.
        port: u16,
        /// Error of the operating system.
        reason: OsError,
    },
    /// A proxy of another kubeconfig uses the port.
    #[error("port {port} of 127.0.0.1 is already used by a proxy of another kubeconfig")]
    OtherProxy {
        /// TCP port that both were configured with.
        port: u16,
    },
    /// The upstream proxy is the port of this proxy.
    #[error("port {port} of 127.0.0.1 cannot be both this proxy and its upstream proxy")]
    Circle {
        /// TCP port of this proxy.
        port: u16,
    },
    /// A socket could not be created.
    #[error("failed to create the proxy's socket: {reason}")]
    Listen {
        /// Error of the operating system.
        reason: OsError,
    },
    /// The client's lock file is not usable.
    #[error("cannot use the client's lock file: {reason}")]
    Lease {
        /// Error of the operating system.
        reason: OsError,
    },
    /// The connection settings are invalid.
    #[error(transparent)]
    Connection(#[from] credlet_http::HttpError),
    /// The path of the API server is ambiguous, so that policies cannot be checked.
    #[error("cannot apply a policy to the path of this API server: {0}")]
    Policy(#[from] AmbiguousPath),
    /// The CA of the proxy cannot be loaded or created.
    #[error(transparent)]
    ProxyCa(#[from] ProxyCaError),
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use credlet_api::exec::Cluster;
    use credlet_exec::{ManualClock, Platform};
    use credlet_http::{CryptoBackend, HttpCredential};

    use super::super::UpstreamTarget;
    use super::*;
    use crate::dir::ProxyDir;
    use crate::sign::SignFuture;

    #[derive(Debug)]
    struct NoopSigner;

    impl Signer for NoopSigner {
        fn credential(&self) -> SignFuture<'_, HttpCredential> {
            Box::pin(async { Ok(HttpCredential::default()) })
        }
    }

    /// A proxy without linger time, not running yet. Its clock is manual.
    async fn bound(home: &Path, leases: Vec<PathBuf>) -> (ManualClock, ProxyServer) {
        let clock = ManualClock::new(jiff::Timestamp::UNIX_EPOCH);
        let mut platform = Platform::system();
        platform.clock = Arc::new(clock.clone());
        let cluster = Cluster { server: "http://127.0.0.1:1".into(), ..Cluster::default() };
        let target = UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &platform).unwrap();
        let mut options = ServerOptions::new(target, ProxyDir::open(home.join("d")).unwrap());
        (options.leases, options.linger, options.socket_protocol) = (leases, Duration::ZERO, SocketProtocol::Plain);
        options.heeds_signals = false;
        (clock, ProxyServer::bind(Arc::new(NoopSigner), options).await.unwrap())
    }

    /// Returns the shutdown reason. Fails instead of hanging.
    async fn reason(running: impl Future<Output = ShutdownReason>) -> ShutdownReason {
        tokio::time::timeout(Duration::from_secs(60), running).await.unwrap()
    }

    #[tokio::test]
    async fn shuts_down_if_client_exited_before_run() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        // The client was killed: the file exists and is not locked.
        File::create(&path).unwrap();
        let (_clock, server) = bound(home.path(), vec![path]).await;
        server.shared.leases.held().wait_for(|held| *held == 0).await.unwrap();
        assert_eq!(reason(server.run()).await, ShutdownReason::Idle);
    }

    #[tokio::test]
    async fn waits_only_for_the_first_client() {
        let home = tempfile::tempdir().unwrap();
        let (clock, server) = bound(home.path(), Vec::new()).await;
        let running = tokio::spawn(server.run());
        tokio::task::yield_now().await;
        clock.advance(FIRST_CLIENT_TIMEOUT - Duration::from_secs(1));
        tokio::task::yield_now().await;
        assert!(!running.is_finished(), "a client may still come");
        clock.advance(Duration::from_secs(1));
        assert_eq!(reason(async { running.await.unwrap() }).await, ShutdownReason::Idle);

        let (_clock, server) = bound(home.path(), Vec::new()).await;
        let (leases, path) = (Arc::clone(&server.shared.leases), home.path().join("lock"));
        let running = tokio::spawn(server.run());
        tokio::task::yield_now().await;
        File::create(&path).unwrap();
        assert_eq!(leases.take(&path).unwrap(), LeaseOutcome::Held);
        // The runtime has a single thread, so the proxy sees both changes at once.
        while *leases.held().borrow() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(reason(async { running.await.unwrap() }).await, ShutdownReason::Idle);
    }
}
