//! Finds the kubeconfig file with the cluster and the user of a context.

use std::path::{Path, PathBuf};

use credlet_api::kubeconfig::KubeconfigFile;
use zeroize::Zeroizing;

use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::kubeconfig_file::read;

/// A kubeconfig file, and the cluster and user to convert in it.
pub(super) struct BridgeTarget {
    pub(super) path: PathBuf,
    pub(super) text: Zeroizing<String>,
    pub(super) cluster: String,
    pub(super) user: String,
    /// Another context that uses only one of the two.
    shared_with: Option<String>,
}

impl BridgeTarget {
    /// Finds the cluster and user of the context, or of `--cluster` and `--user`.
    pub(super) fn find(global: &GlobalArgs) -> Result<Self, CliError> {
        let mut files = Vec::new();
        for path in global.loading_rules().files().map(Path::to_owned) {
            if let Some(text) = read(&path)? {
                let config = KubeconfigFile::decode(text.as_bytes());
                files.push((
                    config.map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?,
                    path,
                    text,
                ));
            }
        }
        let (cluster, user) = names(global, files.iter().map(|(config, ..)| config))?;
        let contexts = files.iter().flat_map(|(config, ..)| &config.contexts);
        let mut others = contexts.filter(|entry| {
            let (its_cluster, its_user) = (&entry.item.cluster.value, &entry.item.user.value);
            (*its_cluster == cluster) != (*its_user == user)
        });
        let shared_with = others.next().map(|other| other.name.clone());
        let of_cluster =
            files.iter().position(|(config, ..)| config.clusters.iter().any(|entry| entry.name == cluster));
        let of_user = files.iter().position(|(config, ..)| config.users.iter().any(|entry| entry.name == user));
        match (of_cluster, of_user) {
            (Some(one), Some(two)) if one == two => {
                let (_, path, text) = files.swap_remove(one);
                Ok(Self { path, text, cluster, user, shared_with })
            }
            (Some(_), Some(_)) => {
                Err(CliError::usage(format!("the cluster {cluster:?} and the user {user:?} are in different files"))
                    .hint("merge the files with `kubectl config view --flatten`"))
            }
            (None, _) => Err(CliError::usage(format!("unknown cluster {cluster:?}: not found in the kubeconfig"))),
            (_, None) => Err(CliError::usage(format!("unknown user {user:?}: not found in the kubeconfig"))),
        }
    }

    /// Returns an error if another context uses only one of cluster and user, because the conversion would break that context.
    pub(super) fn check_not_shared(&self) -> Result<(), CliError> {
        let Some(other) = &self.shared_with else { return Ok(()) };
        Err(CliError::usage(format!(
            "cannot convert: the context {other:?} uses the cluster {:?} or the user {:?} with another user or cluster and would stop \
             working",
            self.cluster, self.user
        ))
        .hint("create a separate cluster and user for this context first"))
    }
}

fn names<'a>(
    global: &GlobalArgs,
    files: impl Iterator<Item = &'a KubeconfigFile> + Clone,
) -> Result<(String, String), CliError> {
    let current = files.clone().map(|config| &config.current_context.value).find(|name| !name.is_empty());
    let context = global.context.as_ref().or(current);
    let found =
        context.and_then(|name| files.clone().flat_map(|config| &config.contexts).find(|entry| entry.name == *name));
    if let (Some(name), None) = (context, found) {
        return Err(CliError::usage(format!("unknown context {name:?}")));
    }
    let cluster = global.cluster.clone().or_else(|| found.map(|found| found.item.cluster.value.clone()));
    let user = global.user.clone().or_else(|| found.map(|found| found.item.user.value.clone()));
    let both = cluster.zip(user);
    both.ok_or_else(|| CliError::usage("no context is set").hint("select one with --context"))
}
