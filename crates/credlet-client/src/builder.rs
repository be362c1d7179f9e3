use std::path::PathBuf;
use std::sync::Arc;

use credlet_http::CryptoBackend;
use credlet_kubeconfig::{ConfigOverrides, LoadingRules};

use crate::{AuthenticatorRegistry, Client, ClientOptions, Error, ExecProxy};

/// Builds a [`Client`] from the kubeconfig that kubectl would use, or from the service account of a pod.
///
/// ```no_run
/// # async fn example() -> Result<(), credlet_client::Error> {
/// let client = credlet_client::Client::builder().context("blue").build()?;
/// let response = client.get("/readyz").await?;
/// assert!(response.status().is_success());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    kubeconfig: Option<PathBuf>,
    overrides: ConfigOverrides,
    options: ClientOptions,
}

impl ClientBuilder {
    pub(crate) fn new() -> Self {
        let options = ClientOptions::new(CryptoBackend::aws_lc_rs());
        Self { kubeconfig: None, overrides: ConfigOverrides::default(), options }
    }

    /// Reads this file instead of `$KUBECONFIG` or `~/.kube/config`. It must exist.
    pub fn kubeconfig(mut self, file: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(file.into());
        self
    }

    /// Uses this context instead of `current-context`.
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.overrides.context = Some(name.into());
        self
    }

    /// Overrides single values of the kubeconfig, like kubectl's flags. Replaces an earlier [`context`](Self::context).
    pub fn overrides(mut self, overrides: ConfigOverrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Shares credentials with the clients of this registry instead of with all clients of the process.
    pub fn authenticators(mut self, authenticators: Arc<AuthenticatorRegistry>) -> Self {
        self.options.authenticators = authenticators;
        self
    }

    /// Lets plugins return an exec proxy (KEP-2718), which is off by default.
    pub fn exec_proxy(mut self, exec_proxy: Arc<dyn ExecProxy>) -> Self {
        self.options.exec_proxy = Some(exec_proxy);
        self
    }

    /// Replaces all options, including those set by [`authenticators`](Self::authenticators) and [`exec_proxy`](Self::exec_proxy).
    pub fn options(mut self, options: ClientOptions) -> Self {
        self.options = options;
        self
    }

    /// Builds the client. Reads the kubeconfig and its files; runs no plugin and opens no connection.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`] or [`Error::Config`].
    pub fn build(self) -> Result<Client, Error> {
        let env = Arc::clone(&self.options.authenticators.platform().env);
        let rules = LoadingRules::from_env(&*env);
        let rules = match self.kubeconfig {
            Some(file) => rules.explicit(file),
            None => rules,
        };
        let resolved = rules.load(&*env)?.resolve(&self.overrides, &*env)?;
        for warning in &resolved.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Client::new(&resolved, self.options)?)
    }
}
