//! Where a bridge keeps its certificates.

use std::path::{Path, PathBuf};

use credlet_client::conn;
use credlet_core::Env;
use credlet_proxy::server::{Authority, Guise};
use jiff::Timestamp;

use super::life::told;
use crate::error::CliError;

/// The authority in this file, made if it is missing: for the names that clients know the port by.
pub(crate) fn authority(file: &Path, guise: Guise, server: &str, now: Timestamp) -> Result<Authority, CliError> {
    match guise {
        Guise::Server => Authority::kept_in(file, now).map_err(told),
        Guise::Proxy => {
            let server = conn::Server::parse(server).map_err(told)?;
            Authority::kept_for(server.host(), file, now).map_err(told)
        }
    }
}

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
