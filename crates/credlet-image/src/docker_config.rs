//! Docker configurations and pull secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credlet_api::image::{DockerAuths, DockerConfigError};
use credlet_exec::{Clock, Env, Platform};
use credlet_platform::fs::read_bounded;
use zeroize::Zeroizing;

use crate::keyring::DockerKeyring;

/// Largest configuration that is read, in bytes.
const MAX_FILE_SIZE: u64 = 16 << 20;

/// Docker configuration of the node, cached for five minutes as in the kubelet.
#[derive(Debug)]
pub struct NodeDockerConfig {
    root_dir: Option<PathBuf>,
    env: Arc<dyn Env>,
    clock: Arc<dyn Clock>,
    cached: Mutex<Option<(Duration, Option<Arc<DockerKeyring>>)>>,
}

impl NodeDockerConfig {
    /// Lifetime of the cached configuration.
    pub const LIFETIME: Duration = Duration::from_secs(300);

    /// `root_dir` is the directory of the kubelet (`--root-dir`). Reads nothing yet.
    pub fn new(root_dir: Option<PathBuf>, platform: &Platform) -> Self {
        let (env, clock) = (Arc::clone(&platform.env), Arc::clone(&platform.clock));
        Self { root_dir, env, clock, cached: Mutex::default() }
    }

    /// Returns the credentials for [`LookupRequest::node`](crate::LookupRequest), or `None` without a configuration.
    pub fn keyring(&self) -> Option<Arc<DockerKeyring>> {
        let now = self.clock.monotonic();
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some((read, keyring)) if now.saturating_sub(*read) < Self::LIFETIME => keyring.clone(),
            _ => {
                let keyring = node_docker_config(self.root_dir.as_deref(), &*self.env);
                let keyring = keyring.map(|(_, keyring)| Arc::new(keyring));
                *cached = Some((now, keyring.clone()));
                keyring
            }
        }
    }
}

/// Returns the docker configuration of the node: the first `config.json` in the kubelet's directory, the current one, `~/.docker`
/// and `/.docker`, or else the first `.dockercfg` in the kubelet's directory, the current one, `~` and `/`. Files that
/// cannot be read, are not regular or have more than 16 MiB are skipped, as the kubelet skips unreadable ones. The
/// current directory is the kubelet's own rule (`credentialprovider.DefaultDockerConfigJSONPaths`), not a replacement for a
/// missing home directory.
pub fn node_docker_config(root_dir: Option<&Path>, env: &dyn Env) -> Option<(PathBuf, DockerKeyring)> {
    let (home, here) = (env.home_dir(), env.current_dir());
    let first = [root_dir.map(Path::to_owned), here];
    let docker = [home.as_ref().map(|home| home.join(".docker")), Some(PathBuf::from("/.docker"))];
    let plain = [home, Some(PathBuf::from("/"))];
    let new =
        first.iter().chain(&docker).flatten().map(|dir| (dir.join("config.json"), DockerConfigFormat::ConfigJson));
    let old = first.iter().chain(&plain).flatten().map(|dir| (dir.join(".dockercfg"), DockerConfigFormat::Dockercfg));
    new.chain(old).find_map(|(path, format)| {
        let text = read_bounded(&path, MAX_FILE_SIZE).ok()?;
        match format.read(&text) {
            Ok(keyring) => Some((path, keyring)),
            Err(error) => {
                tracing::debug!(path = %path.display(), "skipping an invalid docker configuration: {error}");
                None
            }
        }
    })
}

/// Returns the credentials of a pull secret by its type and data, or `None` if the secret has another type or lacks the key of its
/// type.
///
/// # Errors
/// If the data is not JSON of this form.
pub fn pull_secret(
    secret_type: &str,
    data: &BTreeMap<String, Zeroizing<Vec<u8>>>,
) -> Option<Result<DockerKeyring, DockerConfigError>> {
    let (name, format) = match secret_type {
        "kubernetes.io/dockerconfigjson" => (".dockerconfigjson", DockerConfigFormat::ConfigJson),
        "kubernetes.io/dockercfg" => (".dockercfg", DockerConfigFormat::Dockercfg),
        _ => return None,
    };
    data.get(name).map(|text| format.read(text))
}

#[derive(Clone, Copy)]
enum DockerConfigFormat {
    ConfigJson,
    Dockercfg,
}

impl DockerConfigFormat {
    fn read(self, text: &[u8]) -> Result<DockerKeyring, DockerConfigError> {
        let auths = match self {
            Self::ConfigJson => DockerAuths::from_config_json(text),
            Self::Dockercfg => DockerAuths::from_dockercfg(text),
        };
        auths.map(|DockerAuths(auths)| DockerKeyring::new(auths))
    }
}
