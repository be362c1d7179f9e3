use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::{Cluster, ExecInfo, InfoError};
use credlet_client::conn::{self, Crypto, Proxy, Roots, Server, Settings};
use credlet_core::World;

use super::local::Authority;
use crate::dir::Dir;
use crate::policy::Policy;

/// So many connections wait for the next request, where the API server takes one at a time on each. To make one costs as
/// much as a dozen requests, and more with a key in hardware.
const IDLE_CONNECTIONS: usize = 512;

/// The cluster that a proxy serves: one for its whole life. Nothing in a request chooses it.
#[derive(Clone, Debug)]
pub struct Target {
    pub(super) settings: Settings,
    /// That of the API server's address.
    pub(super) path: String,
}

impl Target {
    /// The cluster that the client told its plugin of.
    ///
    /// # Errors
    /// When the kubeconfig does not say `provideClusterInfo: true`, or says something unusable.
    pub fn of(info: &ExecInfo, crypto: Crypto, world: &World) -> Result<Self, TargetError> {
        info.connection()?;
        let cluster = info.spec.cluster.as_ref().ok_or(InfoError::NoCluster)?;
        Self::new(cluster, crypto, world)
    }

    /// This cluster, reached through the proxies that it names or that the environment does.
    ///
    /// # Errors
    /// What is wrong with its description.
    pub fn new(cluster: &Cluster, crypto: Crypto, world: &World) -> Result<Self, TargetError> {
        let server = Server::parse(&cluster.server)?;
        let configured = Some(&cluster.proxy_url).filter(|url| !url.is_empty());
        let proxy = Proxy::choose(configured, &server, &*world.env)?;
        let mut settings = Settings::new(server, crypto, Arc::clone(&world.clock));
        settings.proxy = proxy;
        settings.tuning.idle_connections = IDLE_CONNECTIONS;
        settings.tls_server_name = Some(cluster.tls_server_name.clone()).filter(|name| !name.is_empty());
        settings.roots = match &cluster.certificate_authority_data {
            _ if cluster.insecure_skip_tls_verify => {
                tracing::warn!(server = %settings.server, "whoever answers is taken for the API server");
                Roots::Unchecked
            }
            pem if pem.is_empty() => Roots::Platform,
            pem => Roots::Pem(pem.clone()),
        };
        Ok(Self { settings, path: path_of(&cluster.server) })
    }

    /// The API server.
    pub fn server(&self) -> &Server {
        &self.settings.server
    }
}

/// The path in the address of an API server, which clients put before that of each request. Empty: none.
pub fn path_of(server: &str) -> String {
    let path = server.parse::<http::Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned());
    path.unwrap_or_default()
}

/// Why there is nothing to serve. Whoever wrote the kubeconfig must act.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The client did not say which cluster.
    #[error(transparent)]
    Info(#[from] InfoError),
    /// The cluster cannot be reached as it is described.
    #[error(transparent)]
    Connection(#[from] conn::Error),
}

/// How a proxy listens, and how long it lives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The cluster.
    pub target: Target,
    /// Where its sockets are.
    pub dir: Dir,
    /// Whether the socket speaks TLS. Yes by default.
    pub hop: Hop,
    /// A port for clients that know nothing of sockets. None by default.
    pub loopback: Option<Loopback>,
    /// The lock files of clients that are known from the start: that of its client, for a plugin that is the proxy.
    pub leases: Vec<PathBuf>,
    /// How long to stay when the last client has gone and nothing is in flight: 5 minutes. Zero: not at all, and
    /// what is still in flight then has the drain limit.
    pub linger: Duration,
    /// After how long to end in any case, so that whoever unlocked a key has to do it again: 12 hours.
    pub max_life: Duration,
    /// How long requests that are in flight at the end may take: 10 s. Upgraded connections are cut at once.
    pub drain: Duration,
    /// Whether SIGTERM and SIGINT end it in good order, and not at once. They do by default: a proxy has its process to
    /// itself, as a rule.
    pub heeds_signals: bool,
    /// What is passed on: what all of them let through. None by default: what the user may do is the API server's to say.
    pub policies: Vec<Policy>,
    /// A socket for the members of a group, besides. None by default: what the user may do is then theirs to do.
    pub shared: Option<ForGroup>,
    /// Whose requests are answered besides this user's own. Nobody's by default.
    pub also_serve: Vec<u32>,
}

impl Options {
    /// The defaults.
    pub fn new(target: Target, dir: Dir) -> Self {
        Self {
            target,
            dir,
            hop: Hop::Tls,
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

/// What is spoken on the proxy's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hop {
    /// TLS 1.3, both sides with a certificate of an authority that lives as long as the proxy. Permissions and peer
    /// credentials say the same, but the specification wants both.
    #[default]
    Tls,
    /// HTTP/1.1 as it is.
    Plain,
}

/// A socket that members of a group may use: plain HTTP/1.1, because the kernel says who they are.
#[derive(Clone, Debug)]
pub struct ForGroup {
    /// The group's number.
    pub group: u32,
    /// The directory below which the socket is, made if it is missing: one that members can reach and nobody else can
    /// change. The socket is `NAME/s.sock` there, where the proxy's own is `…/NAME/s.sock`.
    pub dir: PathBuf,
}

/// A port of 127.0.0.1, TLS with a client certificate required, HTTP/2 and HTTP/1.1.
#[derive(Clone, Debug)]
pub struct Loopback {
    /// 0: any free one.
    pub port: u16,
    /// What clients take it for.
    pub guise: Guise,
    /// Whose certificates are shown and accepted there. See [`Authority::kept_in`] and [`Authority::kept_for`].
    pub authority: Arc<Authority>,
}

/// What clients take a port of this machine for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guise {
    /// The API server: a kubeconfig's `server`. TLS from the first byte.
    #[default]
    Server,
    /// An HTTP proxy on the way to the API server: a kubeconfig's `proxy-url`. TLS after a `CONNECT` to the API server,
    /// whose name is then on the certificate.
    Proxy,
}
