use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use credlet_client::conn::Crypto;
use credlet_client::kubeconfig::{Overrides, Resolved};
use credlet_client::{Authenticators, ClientOptions};
use http::{HeaderName, HeaderValue};

/// Which cluster a client is for, and how it behaves.
///
/// ```no_run
/// use credlet_client::kubeconfig::Overrides;
/// use credlet_kube::Options;
/// use std::time::Duration;
///
/// # fn example() -> Result<(), credlet_kube::Error> {
/// let mut overrides = Overrides::default();
/// overrides.context = Some("blue".to_owned());
/// let mut options = Options::overriding(overrides);
/// options.read_timeout = Some(Duration::from_secs(300));
/// // What becomes of watches under a certificate that has been replaced, who may be run, and much more:
/// options.client.drain = Some(Duration::from_secs(3600));
/// let client = credlet_kube::client(options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    pub(crate) source: Source,
    /// How credentials are had and renewed, and how long connecting may take.
    pub client: ClientOptions,
    /// How long the server may be silent, before its answer and in the middle of it: no limit. The time a plugin takes
    /// to give the first credential is not the server's, but if it refuses that credential, the next one's is.
    ///
    /// A quiet watch is silent, too; kube's watcher has a limit of its own for that.
    pub read_timeout: Option<Duration>,
    /// Sent with every request. An `Authorization` among them takes the place of all other credentials.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether a request is sent again, after a while, that was answered with 429, 503 or 504: yes.
    pub retry: bool,
}

/// Where the configuration comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// What kubectl would use.
    Environment(Box<Overrides>),
    Resolved(Box<Resolved>),
    Kube(Box<kube::Config>),
}

impl Options {
    /// For the cluster kubectl would use here: of `$KUBECONFIG` or `~/.kube/config` if they choose one, of the pod's
    /// service account otherwise.
    pub fn infer() -> Self {
        Self::overriding(Overrides::default())
    }

    /// The same, but the caller knows some things better: the context, for example.
    pub fn overriding(overrides: Overrides) -> Self {
        Self::new(Source::Environment(Box::new(overrides)))
    }

    /// Sharing credentials with these instead of with everybody in this process.
    #[must_use]
    pub fn sharing(mut self, authenticators: Arc<Authenticators>) -> Self {
        self.client.authenticators = authenticators;
        self
    }

    pub(crate) fn new(source: Source) -> Self {
        // kube alone would take ring, and with both providers in the tree the TLS library takes none.
        let mut client = ClientOptions::new(Crypto::aws_lc_rs());
        client.user_agent = Some(HeaderValue::from_static(concat!("credlet-kube/", env!("CARGO_PKG_VERSION"))));
        #[cfg(feature = "proxy")]
        {
            client.exec_proxy = credlet_proxy::client::ExecProxies::of_this_process().map(|proxies| proxies as _);
        }
        Self { source, client, read_timeout: None, headers: Vec::new(), retry: true }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::infer()
    }
}

impl From<Resolved> for Options {
    fn from(resolved: Resolved) -> Self {
        Self::new(Source::Resolved(Box::new(resolved)))
    }
}

/// Without the values of headers, and without kube's configuration, whose own `Debug` shows a plugin's arguments and
/// environment.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Options")
            .field("source", &self.source)
            .field("client", &self.client)
            .field("read_timeout", &self.read_timeout)
            .field("headers", &names)
            .field("retry", &self.retry)
            .finish()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(overrides) => f.debug_tuple("Environment").field(overrides).finish(),
            Self::Resolved(resolved) => f.debug_tuple("Resolved").field(resolved).finish(),
            Self::Kube(config) => f.debug_tuple("Kube").field(&config.cluster_url.host()).finish(),
        }
    }
}
