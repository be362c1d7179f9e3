use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use credlet_api::exec::{Cluster, ExecConfig};
use credlet_core::{ExecOptions, ExecPlugin, LockFile, Patience, World};

use super::issuer::{AuthError, Issuer, Origin};
use super::oidc::Provider;
use super::{Authenticator, Inner};
use crate::conn::Crypto;
use crate::kubeconfig::{AuthProvider, Exec, Sourced};

/// The authenticators of a program: one for each configuration, for as long as somebody uses it.
///
/// Two configurations are the same when everything is that can change the credential: the `exec` section, what the
/// plugin is told about the cluster, and the settings. Whether standard input is free is not among it.
#[derive(Debug)]
pub struct Authenticators {
    world: World,
    live: Mutex<Vec<(Key, Weak<Inner>)>>,
}

/// How plugins are run and their credentials kept.
#[derive(Clone, Debug)]
pub struct ExecSettings {
    /// How plugins are run.
    pub options: ExecOptions,
    /// How soon, how often and how long to wait.
    pub patience: Patience,
    /// What keys are read with.
    pub crypto: Crypto,
}

impl ExecSettings {
    /// The defaults.
    pub fn new(crypto: Crypto) -> Self {
        Self { options: ExecOptions::default(), patience: Patience::default(), crypto }
    }
}

impl Authenticators {
    /// Nobody's yet, in this world.
    pub fn new(world: World) -> Self {
        Self { world, live: Mutex::default() }
    }

    /// Those of this process, in the real world. Clients share them unless told otherwise, because a plugin that asks
    /// a person to log in should ask once and not once per client.
    pub fn of_this_process() -> Arc<Self> {
        static ALL: LazyLock<Arc<Authenticators>> = LazyLock::new(|| Arc::new(Authenticators::new(World::system())));
        Arc::clone(&ALL)
    }

    /// The world they live in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The one for this plugin: an existing one if there is an equal one. Nothing is run.
    ///
    /// # Errors
    /// All mistakes in the configuration at once.
    pub fn exec(&self, exec: &Exec, settings: &ExecSettings) -> Result<Authenticator, AuthError> {
        let key = ExecKey {
            config: exec.config.clone(),
            cluster: exec.config.provide_cluster_info.then(|| exec.cluster.clone()),
            policy: settings.options.policy.clone(),
            inherit: settings.options.inherit.clone(),
            limits: (settings.options.limits, settings.options.limits_with_person),
            patience: settings.patience,
            lock_file: settings.options.lock_file.as_ref().map(SameLockFile::of),
        };
        let world = self.world.clone();
        let found = self.find_or(Key::Exec(Box::new(key.clone())), settings.patience, || {
            let plugin = ExecPlugin::new(key.config, key.cluster, settings.options.clone(), world)?;
            Ok(Origin::Exec { plugin: Box::new(plugin), crypto: settings.crypto.clone() })
        })?;
        if let Some(reason) = &settings.options.stdin_unavailable {
            found.reserve_stdin(reason);
        }
        Ok(found)
    }

    /// The one for the old form of login of this user, which is `oidc`: an existing one if there is an equal one.
    /// Nothing is read or sent. Of the settings, `options` concern only plugins.
    ///
    /// New tokens go back into the kubeconfig file that the old ones came from.
    ///
    /// # Errors
    /// None so far: a mistake in the configuration matters, and is told, when the ID token has to be renewed.
    pub fn auth_provider(
        &self,
        provider: &Sourced<AuthProvider>,
        user: &str,
        settings: &ExecSettings,
    ) -> Result<Authenticator, AuthError> {
        let key = Key::AuthProvider {
            provider: Box::new(provider.clone()),
            user: user.to_owned(),
            patience: settings.patience,
        };
        let world = self.world.clone();
        self.find_or(key, settings.patience, || {
            Ok(Origin::Oidc(Provider::new(provider, user, settings.crypto.clone(), world)))
        })
    }

    fn find_or(
        &self,
        key: Key,
        patience: Patience,
        make: impl FnOnce() -> Result<Origin, AuthError>,
    ) -> Result<Authenticator, AuthError> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|(_, inner)| inner.strong_count() > 0);
        let found = live.iter().find(|(other, _)| *other == key).and_then(|(_, inner)| inner.upgrade());
        if let Some(inner) = found {
            return Ok(Authenticator { inner });
        }
        let (clock, observer) = (Arc::clone(&self.world.clock), Arc::clone(&self.world.observer));
        let issuer = Issuer::new(make()?, Arc::clone(&observer));
        let authenticator = Authenticator::new(issuer, clock, observer, patience);
        live.push((key, Arc::downgrade(&authenticator.inner)));
        Ok(authenticator)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.iter().filter(|(_, inner)| inner.strong_count() > 0).count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All that can change a credential.
#[derive(PartialEq)]
enum Key {
    Exec(Box<ExecKey>),
    /// Its file is part of it: new tokens go there.
    AuthProvider {
        provider: Box<Sourced<AuthProvider>>,
        user: String,
        patience: Patience,
    },
}

#[derive(Clone, PartialEq)]
struct ExecKey {
    config: ExecConfig,
    cluster: Option<Cluster>,
    policy: credlet_core::PluginPolicy,
    inherit: credlet_core::Inherit,
    limits: (credlet_core::Limits, credlet_core::Limits),
    patience: Patience,
    lock_file: Option<SameLockFile>,
}

/// By which a lock file is known, without keeping it.
#[derive(Clone)]
struct SameLockFile(Weak<dyn LockFile>);

impl SameLockFile {
    fn of(file: &Arc<dyn LockFile>) -> Self {
        Self(Arc::downgrade(file))
    }
}

impl PartialEq for SameLockFile {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(key) => key.config.fmt(f),
            Self::AuthProvider { provider, .. } => provider.fmt(f),
        }
    }
}
