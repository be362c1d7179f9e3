use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use credlet_api::exec::{Cluster, ExecConfig};
use credlet_core::{ExecOptions, ExecPlugin, Patience, World};

use super::issuer::{AuthError, Issuer, Origin};
use super::{Authenticator, Inner};
use crate::conn::Crypto;
use crate::kubeconfig::Exec;

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
        let key = Key {
            config: exec.config.clone(),
            cluster: exec.config.provide_cluster_info.then(|| exec.cluster.clone()),
            policy: settings.options.policy.clone(),
            inherit: settings.options.inherit.clone(),
            limits: (settings.options.limits, settings.options.limits_with_person),
            patience: settings.patience,
        };
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|(_, inner)| inner.strong_count() > 0);
        let found = live.iter().find(|(other, _)| *other == key).and_then(|(_, inner)| inner.upgrade());
        if let Some(inner) = found {
            let found = Authenticator { inner };
            if let Some(reason) = &settings.options.stdin_unavailable {
                found.reserve_stdin(reason);
            }
            return Ok(found);
        }
        let world = self.world.clone();
        let (clock, observer) = (Arc::clone(&world.clock), Arc::clone(&world.observer));
        let plugin = ExecPlugin::new(key.config.clone(), key.cluster.clone(), settings.options.clone(), world)?;
        let origin = Origin::Exec { plugin: Box::new(plugin), crypto: settings.crypto.clone() };
        let issuer = Issuer::new(origin, Arc::clone(&observer));
        let authenticator = Authenticator::new(issuer, clock, observer, settings.patience);
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
struct Key {
    config: ExecConfig,
    cluster: Option<Cluster>,
    policy: credlet_core::PluginPolicy,
    inherit: credlet_core::Inherit,
    limits: (credlet_core::Limits, credlet_core::Limits),
    patience: Patience,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}
