//! In-cluster configuration: a pod without a kubeconfig uses its service account.

use std::path::Path;

use credlet_api::Secret;
use credlet_platform::Env;
use credlet_platform::fs::read_bounded_or_pipe;

use super::SMALL_FILE_LIMIT;
use super::cluster::{ClusterDraft, given};
use super::origin::{Sourced, ValueOrigin};
use super::overrides::ConfigOverrides;
use super::resolved::ConfigWarning;
use super::user::UserDraft;

/// Service account of the pod that the process runs in.
#[derive(Debug)]
pub(super) struct InClusterConfig<'a> {
    server: String,
    dir: &'a Path,
}

impl<'a> InClusterConfig<'a> {
    /// Returns `None` outside of a pod, and in a pod without a service account.
    pub(super) fn find(dir: Option<&'a Path>, env: &dyn Env) -> Option<Self> {
        let text = |name| env.var(name)?.into_string().ok().filter(|text| !text.is_empty());
        let (host, port) = (text("KUBERNETES_SERVICE_HOST")?, text("KUBERNETES_SERVICE_PORT")?);
        let dir = dir.filter(|dir| dir.join("token").metadata().is_ok_and(|metadata| !metadata.is_dir()))?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Some(Self { server: format!("https://{host}:{port}"), dir })
    }

    /// The API server of the pod, and a warning if the service account has no ca.crt.
    pub(super) fn cluster(&self) -> (ClusterDraft, Option<ConfigWarning>) {
        let authority = self.dir.join("ca.crt");
        let exists = authority.exists();
        let mut draft = ClusterDraft::empty("", ValueOrigin::InCluster);
        draft.server = Some(Sourced::new(Secret::new(&*self.server), ValueOrigin::InCluster));
        draft.authority = exists.then(|| Sourced::new(authority, ValueOrigin::InCluster));
        (draft, (!exists).then_some(ConfigWarning::NoServiceAccountAuthority))
    }

    /// The service account's token, unless the overrides have a user name.
    pub(super) fn user(&self, overrides: &ConfigOverrides) -> UserDraft<'static> {
        let mut draft = UserDraft::empty("");
        if given(&overrides.username).is_none() {
            draft.token_file = Some(Sourced::new(self.dir.join("token"), ValueOrigin::InCluster));
        }
        draft
    }

    /// The namespace of the pod.
    pub(super) fn namespace(&self, env: &dyn Env) -> Option<String> {
        let from_env = || env.var("POD_NAMESPACE")?.into_string().ok().filter(|name| !name.is_empty());
        let from_file = || {
            let bytes = read_bounded_or_pipe(&self.dir.join("namespace"), SMALL_FILE_LIMIT).ok()?;
            let name = std::str::from_utf8(&bytes).ok()?.trim().to_owned();
            Some(name).filter(|name| !name.is_empty())
        };
        from_env().or_else(from_file)
    }
}
