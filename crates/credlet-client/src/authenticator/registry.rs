use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use credlet_api::exec::{Cluster, ExecConfig};
use credlet_exec::{ExecOptions, ExecPlugin, LockFile, Platform, RefreshPolicy};

use super::oidc::OidcAuthProvider;
use super::source::{AuthError, AuthenticatorSource, SourceKind};
use super::{Authenticator, AuthenticatorInner};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{AuthProvider, ResolvedExec, Sourced};

/// Authenticators by configuration. Holds weak references, so that an unused authenticator is dropped.
///
/// Two configurations are equal if everything that can change the credential is: the `exec` section, the cluster information
/// for the plugin, and the settings. Availability of standard input is not compared.
#[derive(Debug)]
pub struct AuthenticatorRegistry {
    platform: Platform,
    live: Mutex<Vec<(RegistryKey, Weak<AuthenticatorInner>)>>,
}

/// Settings of the exec plugins and their cached credentials.
#[derive(Clone, Debug)]
pub struct ExecSettings {
    /// Options of exec plugins.
    pub options: ExecOptions,
    /// When to refresh credentials, and the backoff after failures.
    pub refresh_policy: RefreshPolicy,
    /// Cryptography provider that loads private keys.
    pub crypto: CryptoBackend,
}

impl ExecSettings {
    /// Returns the defaults.
    pub fn new(crypto: CryptoBackend) -> Self {
        Self { options: ExecOptions::default(), refresh_policy: RefreshPolicy::default(), crypto }
    }
}

impl AuthenticatorRegistry {
    /// Creates an empty registry.
    pub fn new(platform: Platform) -> Self {
        Self { platform, live: Mutex::default() }
    }

    /// Returns the registry of this process, which all clients use by default: a plugin that prompts the user must prompt once and
    /// not once per client.
    pub fn of_this_process() -> Arc<Self> {
        static ALL: LazyLock<Arc<AuthenticatorRegistry>> =
            LazyLock::new(|| Arc::new(AuthenticatorRegistry::new(Platform::system())));
        Arc::clone(&ALL)
    }

    /// Returns the platform of the authenticators.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns the authenticator for this plugin, shared with equal configurations. The plugin is not run yet.
    ///
    /// # Errors
    /// All problems of the configuration.
    pub fn exec(&self, exec: &ResolvedExec, settings: &ExecSettings) -> Result<Authenticator, AuthError> {
        let key = ExecKey {
            config: exec.config.clone(),
            cluster: exec.config.provide_cluster_info.then(|| exec.cluster.clone()),
            policy: settings.options.policy.clone(),
            inherit: settings.options.inherit.clone(),
            limits: (settings.options.limits, settings.options.interactive_limits),
            refresh_policy: settings.refresh_policy,
            lock_file: settings.options.lock_file.as_ref().map(LockFileIdentity::new),
        };
        let platform = self.platform.clone();
        let found = self.find_or_insert(RegistryKey::Exec(Box::new(key.clone())), settings.refresh_policy, || {
            let plugin = ExecPlugin::new(key.config, key.cluster, settings.options.clone(), platform)?;
            Ok(SourceKind::Exec { plugin: Box::new(plugin), crypto: settings.crypto.clone() })
        })?;
        if let Some(reason) = &settings.options.stdin_unavailable {
            found.reserve_stdin(reason);
        }
        Ok(found)
    }

    /// Returns the authenticator for the `auth-provider` `oidc` of this user, shared with equal configurations. Nothing is read or
    /// sent yet. The setting `options` is not used.
    ///
    /// Refreshed tokens are saved to the kubeconfig file that they come from.
    ///
    /// # Errors
    /// None at present: an invalid configuration is reported when the ID token must be refreshed.
    pub fn auth_provider(
        &self,
        provider: &Sourced<AuthProvider>,
        user: &str,
        settings: &ExecSettings,
    ) -> Result<Authenticator, AuthError> {
        let key = RegistryKey::AuthProvider {
            provider: Box::new(provider.clone()),
            user: user.to_owned(),
            refresh_policy: settings.refresh_policy,
        };
        let platform = self.platform.clone();
        self.find_or_insert(key, settings.refresh_policy, || {
            Ok(SourceKind::Oidc(OidcAuthProvider::new(provider, user, settings.crypto.clone(), platform)))
        })
    }

    fn find_or_insert(
        &self,
        key: RegistryKey,
        policy: RefreshPolicy,
        build: impl FnOnce() -> Result<SourceKind, AuthError>,
    ) -> Result<Authenticator, AuthError> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|(_, inner)| inner.strong_count() > 0);
        let found = live.iter().find(|(other, _)| *other == key).and_then(|(_, inner)| inner.upgrade());
        if let Some(inner) = found {
            return Ok(Authenticator { inner });
        }
        let (clock, observer) = (Arc::clone(&self.platform.clock), Arc::clone(&self.platform.observer));
        let source = AuthenticatorSource::new(build()?, Arc::clone(&observer));
        let authenticator = Authenticator::new(source, clock, observer, policy);
        live.push((key, Arc::downgrade(&authenticator.inner)));
        Ok(authenticator)
    }

    /// Returns the number of authenticators in use.
    pub fn len(&self) -> usize {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.iter().filter(|(_, inner)| inner.strong_count() > 0).count()
    }

    /// Returns whether no authenticator is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Everything that can change a credential.
#[derive(PartialEq)]
enum RegistryKey {
    Exec(Box<ExecKey>),
    /// Includes the kubeconfig file, because refreshed tokens are saved there.
    AuthProvider {
        provider: Box<Sourced<AuthProvider>>,
        user: String,
        refresh_policy: RefreshPolicy,
    },
}

#[derive(Clone, PartialEq)]
struct ExecKey {
    config: ExecConfig,
    cluster: Option<Cluster>,
    policy: credlet_exec::PluginPolicy,
    inherit: credlet_exec::EnvInheritance,
    limits: (credlet_exec::RunLimits, credlet_exec::RunLimits),
    refresh_policy: RefreshPolicy,
    lock_file: Option<LockFileIdentity>,
}

/// Identity of a lock file by address, without keeping it alive.
#[derive(Clone)]
struct LockFileIdentity(Weak<dyn LockFile>);

impl LockFileIdentity {
    fn new(file: &Arc<dyn LockFile>) -> Self {
        Self(Arc::downgrade(file))
    }
}

impl PartialEq for LockFileIdentity {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for RegistryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(key) => key.config.fmt(f),
            Self::AuthProvider { provider, .. } => provider.fmt(f),
        }
    }
}
