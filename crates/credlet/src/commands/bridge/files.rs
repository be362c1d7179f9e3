//! Which file of a kubeconfig has the cluster and the user of a context.

use std::path::{Path, PathBuf};

use credlet_api::kubeconfig::Config;
use zeroize::Zeroizing;

use crate::args::Global;
use crate::error::CliError;
use crate::kubeconfig_file::read;

/// One file, and the two sections in it that are meant.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) text: Zeroizing<String>,
    pub(super) cluster: String,
    pub(super) user: String,
    /// A context that has one of the two and not the other.
    shared_with: Option<String>,
}

impl Place {
    /// The context's, or the ones that are named.
    pub(super) fn find(global: &Global) -> Result<Self, CliError> {
        let mut files = Vec::new();
        for path in global.loading_rules().files().map(Path::to_owned) {
            if let Some(text) = read(&path)? {
                let config = Config::decode(text.as_bytes());
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
                    .hint("`kubectl config view --flatten` makes one of several"))
            }
            (None, _) => Err(CliError::usage(format!("no kubeconfig has a cluster {cluster:?}"))),
            (_, None) => Err(CliError::usage(format!("no kubeconfig has a user {user:?}"))),
        }
    }

    /// A section that others use as well would change for them too.
    pub(super) fn alone(&self) -> Result<(), CliError> {
        let Some(other) = &self.shared_with else { return Ok(()) };
        Err(CliError::usage(format!(
            "the context {other:?} shares the cluster {:?} or the user {:?} with another user or cluster, and would not \
             work any more",
            self.cluster, self.user
        ))
        .hint("give this context a cluster and a user of its own first"))
    }
}

fn names<'a>(global: &Global, files: impl Iterator<Item = &'a Config> + Clone) -> Result<(String, String), CliError> {
    let current = files.clone().map(|config| &config.current_context.value).find(|name| !name.is_empty());
    let context = global.context.as_ref().or(current);
    let found =
        context.and_then(|name| files.clone().flat_map(|config| &config.contexts).find(|entry| entry.name == *name));
    if let (Some(name), None) = (context, found) {
        return Err(CliError::usage(format!("there is no context {name:?}")));
    }
    let cluster = global.cluster.clone().or_else(|| found.map(|found| found.item.cluster.value.clone()));
    let user = global.user.clone().or_else(|| found.map(|found| found.item.user.value.clone()));
    let both = cluster.zip(user);
    both.ok_or_else(|| CliError::usage("no context is set").hint("name one with --context"))
}
