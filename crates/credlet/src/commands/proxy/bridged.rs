//! Where a bridge keeps its certificates.

use std::path::PathBuf;

use credlet_core::Env;

use crate::error::CliError;

/// The file with the authority that the kubeconfig pins, in a directory of the user's own.
pub(crate) fn authority_file(id: &str, env: &dyn Env) -> Result<PathBuf, CliError> {
    let kept = env.var("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let kept = kept.or_else(|| env.home_dir().map(|home| home.join(".local/share")));
    let dir = kept.ok_or_else(|| CliError::usage("there is no home directory to keep the bridge's certificates in"))?;
    let dir = dir.join("credlet/bridges");
    let made = std::fs::create_dir_all(&dir);
    made.map_err(|error| CliError::usage(format!("{} cannot be made ({})", dir.display(), error.kind())))?;
    Ok(dir.join(format!("{id}.pem")))
}
