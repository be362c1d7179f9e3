use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::{Cluster, ExecInfo, ExecInfoError};
use credlet_exec::Platform;
use credlet_http::{ClientSettings, CryptoBackend, ServerAddr, TrustRoots};

use super::proxy_ca::ProxyCa;
use crate::dir::ProxyDir;
use crate::policy::Policy;

/// Idle HTTP/1.1 connections to the API server. A new connection costs as much as a dozen requests, and more with a
/// hardware key.
const IDLE_CONNECTIONS: usize = 512;

/// The cluster that a proxy serves, fixed for its lifetime and independent of requests.
#[derive(Clone, Debug)]
pub struct UpstreamTarget {
    pub(super) settings: ClientSettings,
    /// Path in the URL of the API server.
    pub(super) path: String,
}

impl UpstreamTarget {
    /// Uses the cluster in the exec info of the plugin.
    ///
    /// # Errors
    /// If the cluster is missing (the kubeconfig lacks `provideClusterInfo: true`) or invalid.
    pub fn of(info: &ExecInfo, crypto: CryptoBackend, platform: &Platform) -> Result<Self, TargetError> {
        info.connection()?;
        let cluster = info.spec.cluster.as_ref().ok_or(ExecInfoError::MissingCluster)?;
        Self::new(cluster, crypto, platform)
    }

    /// Uses this cluster, through its proxy or that of the environment.
    ///
    /// # Errors
    /// If the cluster is invalid.
    pub fn new(cluster: &Cluster, crypto: CryptoBackend, platform: &Platform) -> Result<Self, TargetError> {
        let server = ServerAddr::parse(&cluster.server).map_err(credlet_http::HttpError::from)?;
        let configured = Some(&cluster.proxy_url).filter(|url| !url.is_empty());
        let proxy = credlet_http::proxy_for(configured, &server, &*platform.env)?;
        let mut settings = ClientSettings::new(server, crypto, Arc::clone(&platform.clock));
        settings.proxy = proxy;
        settings.tuning.max_idle_connections = IDLE_CONNECTIONS;
        settings.tls_server_name = Some(cluster.tls_server_name.clone()).filter(|name| !name.is_empty());
        settings.roots = match &cluster.certificate_authority_data {
            _ if cluster.insecure_skip_tls_verify => {
                tracing::warn!(server = %settings.server, "TLS verification of the API server is disabled");
                TrustRoots::Unchecked
            }
            pem if pem.is_empty() => TrustRoots::Platform,
            pem => TrustRoots::Pem(pem.clone()),
        };
        Ok(Self { settings, path: server_path(&cluster.server) })
    }

    /// Returns the address of the API server.
    pub fn server(&self) -> &ServerAddr {
        &self.settings.server
    }
}

/// Returns the path in the URL of an API server, which is a prefix of all request paths. Empty if there is none.
pub fn server_path(server: &str) -> String {
    let path = server.parse::<http::Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned());
    path.unwrap_or_default()
}

/// A missing or invalid cluster.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The exec info has no cluster.
    #[error(transparent)]
    Info(#[from] ExecInfoError),
    /// The connection settings are invalid.
    #[error(transparent)]
    Connection(#[from] credlet_http::HttpError),
}

/// Listeners, lifetime and policies of a proxy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Cluster to which requests are forwarded.
    pub target: UpstreamTarget,
    /// Directory of the sockets.
    pub dir: ProxyDir,
    /// Protocol of the socket. Default: TLS.
    pub socket_protocol: SocketProtocol,
    /// Port for clients that do not support exec proxies. Default: none.
    pub loopback: Option<LoopbackOptions>,
    /// Lock files of the initial clients. A plugin that is the proxy itself passes its client's.
    pub leases: Vec<PathBuf>,
    /// Time to stay after the last client exits and the last request ends. Default: 5 minutes. Zero: shut down at once,
    /// with the drain timeout for requests in flight.
    pub linger: Duration,
    /// Maximum lifetime, after which a key must be unlocked again. Default: 12 hours.
    pub max_life: Duration,
    /// Drain timeout for requests in flight at shutdown. Default: 10 s. Upgraded connections are closed at once.
    pub drain: Duration,
    /// Whether SIGTERM and SIGINT trigger a graceful shutdown. Default: true.
    pub heeds_signals: bool,
    /// Policies that restrict the forwarded requests. Default: none.
    pub policies: Vec<Policy>,
    /// Additional socket for the members of a group, who then act as this user. Default: none.
    pub shared: Option<GroupSocket>,
    /// User ids that may connect besides this user. Default: none.
    pub also_serve: Vec<u32>,
}

impl ServerOptions {
    /// Uses the defaults.
    pub fn new(target: UpstreamTarget, dir: ProxyDir) -> Self {
        Self {
            target,
            dir,
            socket_protocol: SocketProtocol::Tls,
            loopback: None,
            leases: Vec::new(),
            linger: Duration::from_secs(5 * 60),
            max_life: Duration::from_secs(12 * 60 * 60),
            drain: Duration::from_secs(10),
            heeds_signals: true,
            policies: Vec::new(),
            shared: None,
            also_serve: Vec::new(),
        }
    }
}

/// Protocol of the proxy's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketProtocol {
    /// TLS 1.3 with client and server certificates of a CA that is generated per proxy. KEP-2718 requires it in
    /// addition to permissions and peer credentials.
    #[default]
    Tls,
    /// HTTP/1.1 without TLS, protected by permissions and peer credentials only.
    Plain,
}

/// Socket for the members of a group: plain HTTP/1.1, authenticated by the kernel.
#[derive(Clone, Debug)]
pub struct GroupSocket {
    /// Id of the group whose members may connect.
    pub group: u32,
    /// Parent directory of the socket, created if missing. Members must be able to reach it and no other user to change
    /// it. The socket is `NAME/s.sock` in it, with the `NAME` of the proxy's directory.
    pub dir: PathBuf,
}

/// Port of 127.0.0.1: TLS with client certificates, HTTP/2 and HTTP/1.1.
#[derive(Clone, Debug)]
pub struct LoopbackOptions {
    /// 0: an ephemeral port.
    pub port: u16,
    /// How clients use the port.
    pub mode: BridgeMode,
    /// CA of the server and client certificates, see [`ProxyCa::load_or_create`] and
    /// [`ProxyCa::load_or_create_for_host`].
    pub authority: Arc<ProxyCa>,
}

/// How clients use the port of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BridgeMode {
    /// As the `server` of a kubeconfig: TLS from the first byte.
    #[default]
    Server,
    /// As the `proxy-url` of a kubeconfig: TLS after a `CONNECT` to the API server, with the API server's name in the
    /// certificate.
    ProxyUrl,
}
