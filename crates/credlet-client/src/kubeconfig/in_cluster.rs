//! A pod without a kubeconfig uses its service account.

use std::path::Path;

use credlet_api::Secret;
use credlet_core::Env;

use super::cluster::{ClusterDraft, given};
use super::origin::{Origin, Sourced};
use super::overrides::Overrides;
use super::read;
use super::resolved::Warning;
use super::user::UserDraft;

/// The service account of the pod we are in.
#[derive(Debug)]
pub(super) struct InCluster<'a> {
    server: String,
    dir: &'a Path,
}

impl<'a> InCluster<'a> {
    /// `None`: we are in no pod, or it has no service account.
    pub(super) fn find(dir: Option<&'a Path>, env: &dyn Env) -> Option<Self> {
        let text = |name| env.var(name)?.into_string().ok().filter(|text| !text.is_empty());
        let (host, port) = (text("KUBERNETES_SERVICE_HOST")?, text("KUBERNETES_SERVICE_PORT")?);
        let dir = dir.filter(|dir| dir.join("token").metadata().is_ok_and(|about| !about.is_dir()))?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Some(Self { server: format!("https://{host}:{port}"), dir })
    }

    /// The API server, and a word if its certificate cannot be checked as it should.
    pub(super) fn cluster(&self) -> (ClusterDraft, Option<Warning>) {
        let authority = self.dir.join("ca.crt");
        let exists = authority.exists();
        let mut draft = ClusterDraft::empty("", Origin::InCluster);
        draft.server = Some(Sourced::new(Secret::new(&*self.server), Origin::InCluster));
        draft.authority = exists.then(|| Sourced::new(authority, Origin::InCluster));
        (draft, (!exists).then_some(Warning::NoServiceAccountAuthority))
    }

    /// The service account, unless the caller logs in as somebody.
    pub(super) fn user(&self, overrides: &Overrides) -> UserDraft<'static> {
        let mut draft = UserDraft::empty("");
        if given(&overrides.username).is_none() {
            draft.token_file = Some(Sourced::new(self.dir.join("token"), Origin::InCluster));
        }
        draft
    }

    /// The pod's namespace.
    pub(super) fn namespace(&self, env: &dyn Env) -> Option<String> {
        let from_env = || env.var("POD_NAMESPACE")?.into_string().ok().filter(|name| !name.is_empty());
        let from_file = || {
            let bytes = read::file(&self.dir.join("namespace"), read::SMALL).ok()?;
            let name = std::str::from_utf8(&bytes).ok()?.trim().to_owned();
            Some(name).filter(|name| !name.is_empty())
        };
        from_env().or_else(from_file)
    }
}
