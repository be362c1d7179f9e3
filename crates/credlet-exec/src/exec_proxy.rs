//! Exec proxies (KEP-2718): the lock file that a plugin receives, and the proxy that it returns.

use std::fmt;
use std::path::PathBuf;

use credlet_api::exec::ProxyConfig;

use credlet_platform::RunningProcess;

/// A file that this process keeps locked while it uses exec proxies. Passing its path to a plugin announces support for
/// KEP-2718; a proxy may exit when the lock is released.
pub trait LockFile: fmt::Debug + Send + Sync {
    /// Returns the path. The first call creates and locks the file.
    ///
    /// # Errors
    /// Fails if the file cannot be created. Plugins then run without it and return no proxy.
    fn path(&self) -> Result<PathBuf, LockFileError>;
}

/// The lock file cannot be created.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot create the lock file: {reason}")]
pub struct LockFileError {
    /// The path and what failed.
    pub reason: String,
}

/// The exec proxy of a credential.
///
/// Two are equal if their configurations are and they do not have two different processes: a new process is a new proxy. A
/// plugin that starts a daemon may be slow to exit and count as running in one of two runs, which does not make the daemon
/// another proxy.
#[derive(Clone, Debug)]
pub struct PluginProxy {
    /// Address and certificates, as the plugin returned them.
    pub config: ProxyConfig,
    /// The plugin process, if it keeps running. It is terminated when the last clone is dropped.
    pub process: Option<RunningProcess>,
}

impl PartialEq for PluginProxy {
    fn eq(&self, other: &Self) -> bool {
        let same_process = match (&self.process, &other.process) {
            (Some(one), Some(another)) => one == another,
            _ => true,
        };
        same_process && self.config == other.config
    }
}
