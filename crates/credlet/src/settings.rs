//! Turns the global flags into loading rules, a resolved kubeconfig, a plugin policy and client options.

use std::future::Future;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use credlet_client::{AuthenticatorRegistry, ClientOptions};
use credlet_exec::{Env, ExecOptions, Platform, PluginPolicy, SystemEnv, plugin_policy, program_policy};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{ConfigOverrides, Kubeconfig, LoadingRules, ResolvedConfig};
use credlet_proxy::client::ExecProxies;

use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::style;

impl GlobalArgs {
    /// The kubeconfig files to read: `--kubeconfig`, else `$KUBECONFIG`, else the default.
    pub(crate) fn loading_rules(&self) -> LoadingRules {
        let rules = LoadingRules::from_env(&SystemEnv);
        rules.explicit(self.kubeconfig.clone().unwrap_or_default())
    }

    pub(crate) fn kubeconfig(&self) -> Result<Kubeconfig, CliError> {
        Ok(self.loading_rules().load(&SystemEnv)?)
    }

    /// The flags that override values of the kubeconfig.
    pub(crate) fn overrides(&self) -> ConfigOverrides {
        let mut overrides = ConfigOverrides::default();
        overrides.context.clone_from(&self.context);
        overrides.cluster.clone_from(&self.cluster);
        overrides.user.clone_from(&self.user);
        overrides.namespace.clone_from(&self.namespace);
        overrides.server.clone_from(&self.server);
        overrides.tls_server_name.clone_from(&self.tls_server_name);
        overrides.insecure_skip_tls_verify = self.insecure_skip_tls_verify;
        overrides.certificate_authority = non_empty(&self.certificate_authority);
        overrides.proxy_url.clone_from(&self.proxy_url);
        overrides.token.clone_from(&self.token);
        overrides.username.clone_from(&self.username);
        overrides.password.clone_from(&self.password);
        overrides.client_certificate = non_empty(&self.client_certificate);
        overrides.client_key = non_empty(&self.client_key);
        overrides.impersonate.clone_from(&self.impersonate);
        overrides.impersonate_uid.clone_from(&self.as_uid);
        overrides.impersonate_groups.clone_from(&self.as_group);
        for (key, value) in &self.as_user_extra {
            overrides.impersonate_user_extra.entry(key.clone()).or_default().push(value.clone());
        }
        overrides
    }

    /// Loads and resolves the kubeconfig. Prints its warnings on standard error.
    pub(crate) fn resolve(&self) -> Result<ResolvedConfig, CliError> {
        let resolved = self.kubeconfig()?.resolve(&self.overrides(), &SystemEnv)?;
        for warning in &resolved.warnings {
            warn(&warning.to_string());
        }
        Ok(resolved)
    }

    /// The policy for plugins that a kubeconfig names.
    pub(crate) fn policy(&self) -> Result<PluginPolicy, CliError> {
        self.policy_in(&SystemEnv)
    }

    /// Like [`policy`](Self::policy), in the environment of a plugin that runs in this process.
    pub(crate) fn policy_in(&self, env: &dyn Env) -> Result<PluginPolicy, CliError> {
        Ok(plugin_policy(self.kuberc().as_deref(), env)?)
    }

    /// The policy for programs that the arguments or the environment name.
    pub(crate) fn program_policy(&self) -> Result<PluginPolicy, CliError> {
        Ok(program_policy(self.kuberc().as_deref(), &SystemEnv)?)
    }

    /// The file of `--kuberc`, unless it is empty.
    pub(crate) fn kuberc(&self) -> Option<PathBuf> {
        non_empty(&self.kuberc)
    }

    /// Returns client options with the system's clock, environment and process runner.
    pub(crate) fn client_options(&self) -> Result<ClientOptions, CliError> {
        self.client_options_in(Platform::system())
    }

    /// Like [`client_options`](Self::client_options), with another platform.
    pub(crate) fn client_options_in(&self, platform: Platform) -> Result<ClientOptions, CliError> {
        let mut options = ClientOptions::new(CryptoBackend::aws_lc_rs());
        options.exec = ExecOptions { policy: self.policy()?, ..ExecOptions::default() };
        options.exec_proxy = ExecProxies::from_env(&*platform.env).map(|proxies| proxies as _);
        options.authenticators = Arc::new(AuthenticatorRegistry::new(platform));
        Ok(options)
    }

    /// Awaits the future for at most `--request-timeout`.
    pub(crate) async fn with_timeout<T>(
        &self,
        future: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        let Some(limit) = self.request_timeout else { return future.await };
        match tokio::time::timeout(limit, future).await {
            Ok(result) => result,
            Err(_) => Err(CliError::new(ExitStatus::TimedOut, format!("request timed out after {limit:?}"))
                .hint("set the limit with --request-timeout; 0 disables it")),
        }
    }
}

/// Treats an empty path as absent, like kubectl.
fn non_empty(path: &Option<PathBuf>) -> Option<PathBuf> {
    path.clone().filter(|path| !path.as_os_str().is_empty())
}

/// Prints a warning on standard error.
pub(crate) fn warn(text: &str) {
    // A closed standard error is ignored.
    let lead = style::stderr().warning("warning:");
    let _ = writeln!(std::io::stderr().lock(), "{lead} {}", credlet_api::escape_indented(text));
}
