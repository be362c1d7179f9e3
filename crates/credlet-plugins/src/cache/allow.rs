//! Which plugins may stand behind the cache.
//!
//! A user who allows only some plugins in `kuberc` and puts this one on the list would allow every program with it. So
//! there is a list of our own: one name or path on a line of `credlet/cache-allowlist` in the user's configuration
//! directory. Without the file everything is allowed; a file that cannot be understood allows nothing. The other way is
//! a link named `credlet-cache-aws`, which runs `aws` and nothing else, and can be put on kuberc's list itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use credlet_core::{Env, LookupError, PluginPolicy, PolicyError};

/// Decides about `command`.
pub(super) fn check(command: &str, found: &Result<PathBuf, LookupError>, env: &dyn Env) -> Result<(), AllowError> {
    let Some(path) = place(env) else { return Ok(()) };
    let text = match fs::read_to_string(&path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        read => read.map_err(|error| AllowError::Unreadable { path: path.clone(), reason: error.kind() })?,
    };
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let entries = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let policy = PluginPolicy::new("Allowlist", Some(entries));
    policy.and_then(|policy| policy.check(command, found, env)).map_err(|reason| AllowError::Refused { path, reason })
}

fn place(env: &dyn Env) -> Option<PathBuf> {
    let configured = env.var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let configured = configured.or_else(|| env.home_dir().map(|home| home.join(".config")));
    configured.map(|dir| dir.join(Path::new("credlet/cache-allowlist")))
}

/// Why a plugin may not stand behind the cache. The owner of the list must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllowError {
    /// The list cannot be read.
    #[error("the list of allowed plugins in {} cannot be read ({reason})", path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        reason: io::ErrorKind,
    },
    /// The list does not have it.
    #[error("{reason} ({})", path.display())]
    Refused {
        /// Where the list is.
        path: PathBuf,
        /// What it says.
        reason: PolicyError,
    },
}
