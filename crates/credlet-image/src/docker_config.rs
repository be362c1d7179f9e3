//! The other places where a node keeps credentials: docker configurations and pull secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credlet_api::image::{DockerAuths, DockerConfigError};
use credlet_core::{Clock, Env, World};
use zeroize::Zeroizing;

use crate::keyring::Keyring;

/// The node's docker configuration, read again when it is five minutes old, as the kubelet does it.
#[derive(Debug)]
pub struct NodeDockerConfig {
    root_dir: Option<PathBuf>,
    env: Arc<dyn Env>,
    clock: Arc<dyn Clock>,
    kept: Mutex<Option<(Duration, Option<Arc<Keyring>>)>>,
}

impl NodeDockerConfig {
    /// For how long nobody looks again.
    pub const LIFETIME: Duration = Duration::from_secs(300);

    /// Nothing is read yet. `root_dir` is the kubelet's own directory.
    pub fn new(root_dir: Option<PathBuf>, world: &World) -> Self {
        let (env, clock) = (Arc::clone(&world.env), Arc::clone(&world.clock));
        Self { root_dir, env, clock, kept: Mutex::default() }
    }

    /// What is in it, for [`Asking::node`](crate::Asking). `None`: there is none.
    pub fn keyring(&self) -> Option<Arc<Keyring>> {
        let now = self.clock.monotonic();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((read, keyring)) if now.saturating_sub(*read) < Self::LIFETIME => keyring.clone(),
            _ => {
                let keyring = node_docker_config(self.root_dir.as_deref(), &*self.env);
                let keyring = keyring.map(|(_, keyring)| Arc::new(keyring));
                *kept = Some((now, keyring.clone()));
                keyring
            }
        }
    }
}

/// The node's docker configuration: the first `config.json` in the kubelet's directory, the current one, `~/.docker`
/// and `/.docker`, or else the first `.dockercfg` in the kubelet's directory, the current one, `~` and `/`. Files that
/// cannot be read are passed over, as the kubelet passes them over.
pub fn node_docker_config(root_dir: Option<&Path>, env: &dyn Env) -> Option<(PathBuf, Keyring)> {
    let (home, here) = (env.home_dir(), env.current_dir());
    let first = [root_dir.map(Path::to_owned), here];
    let docker = [home.as_ref().map(|home| home.join(".docker")), Some(PathBuf::from("/.docker"))];
    let plain = [home, Some(PathBuf::from("/"))];
    let new = first.iter().chain(&docker).flatten().map(|dir| (dir.join("config.json"), Format::ConfigJson));
    let old = first.iter().chain(&plain).flatten().map(|dir| (dir.join(".dockercfg"), Format::Dockercfg));
    new.chain(old).find_map(|(path, format)| {
        if !path.metadata().is_ok_and(|found| found.is_file()) {
            return None;
        }
        let text = Zeroizing::new(std::fs::read(&path).ok()?);
        match format.read(&text) {
            Ok(keyring) => Some((path, keyring)),
            Err(error) => {
                tracing::debug!(path = %path.display(), "passing over a docker configuration: {error}");
                None
            }
        }
    })
}

/// The credentials of a pull secret, by its type and its data. `None`: a secret of another type, or one whose data is
/// not what its type says.
///
/// # Errors
/// Its owner must act.
pub fn pull_secret(
    secret_type: &str,
    data: &BTreeMap<String, Zeroizing<Vec<u8>>>,
) -> Option<Result<Keyring, DockerConfigError>> {
    let (name, format) = match secret_type {
        "kubernetes.io/dockerconfigjson" => (".dockerconfigjson", Format::ConfigJson),
        "kubernetes.io/dockercfg" => (".dockercfg", Format::Dockercfg),
        _ => return None,
    };
    data.get(name).map(|text| format.read(text))
}

#[derive(Clone, Copy)]
enum Format {
    ConfigJson,
    Dockercfg,
}

impl Format {
    fn read(self, text: &[u8]) -> Result<Keyring, DockerConfigError> {
        let auths = match self {
            Self::ConfigJson => DockerAuths::from_config_json(text),
            Self::Dockercfg => DockerAuths::from_dockercfg(text),
        };
        auths.map(|DockerAuths(auths)| Keyring::new(auths))
    }
}
