//! From the common flags to what a client is made of.

use std::future::Future;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use credlet_client::conn::Crypto;
use credlet_client::kubeconfig::{Kubeconfig, LoadingRules, Overrides, Resolved};
use credlet_client::{Authenticators, ClientOptions};
use credlet_core::{ExecOptions, PluginPolicy, SystemEnv, World, plugin_policy};
use credlet_proxy::client::ExecProxies;

use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::style;

impl Global {
    /// Which files are read.
    pub(crate) fn loading_rules(&self) -> LoadingRules {
        let rules = LoadingRules::from_env(&SystemEnv);
        rules.explicit(self.kubeconfig.clone().unwrap_or_default())
    }

    pub(crate) fn kubeconfig(&self) -> Result<Kubeconfig, CliError> {
        Ok(self.loading_rules().load(&SystemEnv)?)
    }

    /// What the flags say in place of the files.
    pub(crate) fn overrides(&self) -> Overrides {
        let mut overrides = Overrides::default();
        overrides.context.clone_from(&self.context);
        overrides.cluster.clone_from(&self.cluster);
        overrides.user.clone_from(&self.user);
        overrides.namespace.clone_from(&self.namespace);
        overrides.server.clone_from(&self.server);
        overrides.tls_server_name.clone_from(&self.tls_server_name);
        overrides.insecure_skip_tls_verify = self.insecure_skip_tls_verify;
        overrides.certificate_authority = given(&self.certificate_authority);
        overrides.proxy_url.clone_from(&self.proxy_url);
        overrides.token.clone_from(&self.token);
        overrides.username.clone_from(&self.username);
        overrides.password.clone_from(&self.password);
        overrides.client_certificate = given(&self.client_certificate);
        overrides.client_key = given(&self.client_key);
        overrides.impersonate.clone_from(&self.impersonate);
        overrides.impersonate_uid.clone_from(&self.as_uid);
        overrides.impersonate_groups.clone_from(&self.as_group);
        for (key, value) in &self.as_user_extra {
            overrides.impersonate_user_extra.entry(key.clone()).or_default().push(value.clone());
        }
        overrides
    }

    /// Everything a connection needs. What may surprise is told on standard error.
    pub(crate) fn resolve(&self) -> Result<Resolved, CliError> {
        let resolved = self.kubeconfig()?.resolve(&self.overrides(), &SystemEnv)?;
        for warning in &resolved.warnings {
            warn(&warning.to_string());
        }
        Ok(resolved)
    }

    /// The plugins that the user's kuberc file allows.
    pub(crate) fn policy(&self) -> Result<PluginPolicy, CliError> {
        Ok(plugin_policy(given(&self.kuberc).as_deref(), &SystemEnv)?)
    }

    /// How a client behaves, in the real world.
    pub(crate) fn client_options(&self) -> Result<ClientOptions, CliError> {
        self.client_options_in(World::system())
    }

    /// How a client behaves, in another world.
    pub(crate) fn client_options_in(&self, world: World) -> Result<ClientOptions, CliError> {
        let mut options = ClientOptions::new(Crypto::aws_lc_rs());
        options.exec = ExecOptions { policy: self.policy()?, ..ExecOptions::default() };
        options.exec_proxy = ExecProxies::from_env(&*world.env).map(|proxies| proxies as _);
        options.authenticators = Arc::new(Authenticators::new(world));
        Ok(options)
    }

    /// Waits for something no longer than `--request-timeout` allows.
    pub(crate) async fn in_time<T>(&self, what: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
        let Some(limit) = self.request_timeout else { return what.await };
        match tokio::time::timeout(limit, what).await {
            Ok(result) => result,
            Err(_) => Err(CliError::new(Exit::TimedOut, format!("there was no answer within {limit:?}"))
                .hint("--request-timeout sets the limit; 0 is none")),
        }
    }
}

/// An empty path is none, as with kubectl.
fn given(path: &Option<PathBuf>) -> Option<PathBuf> {
    path.clone().filter(|path| !path.as_os_str().is_empty())
}

/// Something that is no mistake and may surprise all the same.
pub(crate) fn warn(text: &str) {
    // Without anybody to tell, nothing is lost.
    let lead = style::stderr().warning("warning:");
    let _ = writeln!(std::io::stderr().lock(), "{lead} {}", credlet_api::visible(text));
}
