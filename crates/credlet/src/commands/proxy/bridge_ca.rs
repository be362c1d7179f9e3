//! Stored CAs of bridges.

use std::path::{Path, PathBuf};

use credlet_exec::Env;
use credlet_platform::dirs::data_dir;
use credlet_platform::fs::{UnsafeDir, check_owners, create_private_dir, remove_private_file};
use credlet_proxy::server::{BridgeMode, ProxyCa};
use jiff::Timestamp;

use super::daemon::usage_error;
use crate::error::CliError;

/// Reads the CA from this file, or creates it for the host names that clients use. Nothing is created below another
/// user's directory, such as root's `$HOME` after `sudo`.
pub(crate) fn authority(file: &Path, mode: BridgeMode, server: &str, now: Timestamp) -> Result<ProxyCa, CliError> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    check_owners(dir).and_then(|()| create_private_dir(dir)).map_err(|reason| unsafe_dir(dir, reason))?;
    match mode {
        BridgeMode::Server => ProxyCa::load_or_create(file, now).map_err(usage_error),
        BridgeMode::ProxyUrl => {
            let server = credlet_http::ServerAddr::parse(server).map_err(usage_error)?;
            ProxyCa::load_or_create_for_host(server.host(), file, now).map_err(usage_error)
        }
    }
}

/// Returns the path of the file with the CA that the kubeconfig pins. Creates nothing.
pub(crate) fn authority_file(id: &str, env: &dyn Env) -> Result<PathBuf, CliError> {
    let dir =
        data_dir(env).ok_or_else(|| CliError::usage("home directory not found for the certificates of the bridge"))?;
    Ok(dir.join("credlet/bridges").join(format!("{id}.pem")))
}

/// Removes the file, unless its directory belongs to another user.
pub(crate) fn remove_authority(file: &Path) {
    // The file may not exist.
    let _ = remove_private_file(file);
}

fn unsafe_dir(dir: &Path, reason: UnsafeDir) -> CliError {
    let error = CliError::usage(format!("{} {reason}", dir.display()));
    match reason {
        UnsafeDir::OpenToOthers { .. } => {
            error.hint(format!("check its content, then run `chmod 700 {}`", dir.display()))
        }
        UnsafeDir::ForeignOwner { .. } => error.hint("set HOME to your own home directory, for example with `sudo -H`"),
        _ => error,
    }
}
