//! What a plugin that is, or starts, a proxy (KEP-2718) is told and answers.

use std::fmt;
use std::path::PathBuf;

use credlet_api::exec::ProxyConfig;

use crate::runner::Process;

/// A file that this process keeps locked for as long as this lives. To pass its path to a plugin is to say that we
/// understand an answer with a proxy, and tells the proxy when to end.
pub trait LockFile: fmt::Debug + Send + Sync {
    /// Where it is. Made and locked when it is first asked for.
    ///
    /// # Errors
    /// Why there can be none. Plugins are run without it then, and none of them gives a proxy.
    fn path(&self) -> Result<PathBuf, NoLockFile>;
}

/// Why there is no lock file. Whoever set up the directory for it must act.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct NoLockFile {
    /// Where it should have been, and what is wrong there.
    pub reason: String,
}

/// Where requests are to be sent instead of to the API server. Equal when the plugin said the same and, if it goes on
/// to live, is the same process: another one has another proxy in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// As the plugin said.
    pub config: ProxyConfig,
    /// The plugin, if it goes on to live. Usually it is the proxy then, which ends when this is dropped.
    pub process: Option<Process>,
}
