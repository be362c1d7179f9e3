use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use credlet_client::{AuthenticatorRegistry, ClientOptions};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{ConfigOverrides, ResolvedConfig};
use http::{HeaderName, HeaderValue};

/// Cluster and options of a client.
///
/// ```no_run
/// use credlet_kubeconfig::ConfigOverrides;
/// use credlet_kube::KubeClientOptions;
/// use std::time::Duration;
///
/// # fn example() -> Result<(), credlet_kube::Error> {
/// let mut overrides = ConfigOverrides::default();
/// overrides.context = Some("blue".to_owned());
/// let mut options = KubeClientOptions::with_overrides(overrides);
/// options.read_timeout = Some(Duration::from_secs(300));
/// // Close connections of a replaced certificate after an hour, watches included.
/// options.client.drain = Some(Duration::from_secs(3600));
/// let client = credlet_kube::client(options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct KubeClientOptions {
    pub(crate) source: ConfigSource,
    /// Options for credentials and connections.
    pub client: ClientOptions,
    /// Timeout for the response head and for each part of the body. Default: none. The plugin run for the first credential does
    /// not count; one after a `401` does.
    ///
    /// It also applies to a watch without events, for which kube's watcher has a separate timeout.
    pub read_timeout: Option<Duration>,
    /// Headers of every request. An `Authorization` header replaces all other credentials.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Retries requests with backoff after 429, 503 and 504. Default: yes.
    pub retry: bool,
}

/// Source of the configuration.
#[derive(Clone)]
pub(crate) enum ConfigSource {
    /// `$KUBECONFIG`, `~/.kube/config` or the service account of the pod.
    Environment(Box<ConfigOverrides>),
    Resolved(Box<ResolvedConfig>),
    Kube(Box<kube::Config>),
}

impl KubeClientOptions {
    /// Returns options for the cluster that kubectl would use: the current context of `$KUBECONFIG` or `~/.kube/config`, else the
    /// service account of this pod.
    pub fn infer() -> Self {
        Self::with_overrides(ConfigOverrides::default())
    }

    /// As [`infer`](Self::infer), with values of the kubeconfig overridden, such as the context.
    pub fn with_overrides(overrides: ConfigOverrides) -> Self {
        Self::new(ConfigSource::Environment(Box::new(overrides)))
    }

    /// Shares credentials with the clients of this registry instead of with all clients of the process.
    #[must_use]
    pub fn with_authenticators(mut self, authenticators: Arc<AuthenticatorRegistry>) -> Self {
        self.client.authenticators = authenticators;
        self
    }

    pub(crate) fn new(source: ConfigSource) -> Self {
        // Explicit, because rustls chooses no default if both ring (through kube) and aws-lc-rs are compiled in.
        let mut client = ClientOptions::new(CryptoBackend::aws_lc_rs());
        client.user_agent = Some(HeaderValue::from_static(concat!("credlet-kube/", env!("CARGO_PKG_VERSION"))));
        #[cfg(feature = "proxy")]
        {
            client.exec_proxy = credlet_proxy::client::ExecProxies::of_this_process().map(|proxies| proxies as _);
        }
        Self { source, client, read_timeout: None, headers: Vec::new(), retry: true }
    }
}

impl Default for KubeClientOptions {
    fn default() -> Self {
        Self::infer()
    }
}

impl From<ResolvedConfig> for KubeClientOptions {
    fn from(resolved: ResolvedConfig) -> Self {
        Self::new(ConfigSource::Resolved(Box::new(resolved)))
    }
}

/// Omits header values and `kube::Config`, whose `Debug` prints a plugin's arguments and environment.
impl fmt::Debug for KubeClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("KubeClientOptions")
            .field("source", &self.source)
            .field("client", &self.client)
            .field("read_timeout", &self.read_timeout)
            .field("headers", &names)
            .field("retry", &self.retry)
            .finish()
    }
}

impl fmt::Debug for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(overrides) => f.debug_tuple("Environment").field(overrides).finish(),
            Self::Resolved(resolved) => f.debug_tuple("Resolved").field(resolved).finish(),
            Self::Kube(config) => f.debug_tuple("Kube").field(&config.cluster_url.host()).finish(),
        }
    }
}
