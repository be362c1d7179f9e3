use std::fmt;
use std::time::Duration;

use crate::RunError;

use super::CacheAllowError;
use crate::store::{SealError, StoreError};

/// A message for the user: a warning before the response, or the error that is reported instead of one.
#[derive(Debug)]
#[non_exhaustive]
pub enum CacheWarning {
    /// Another process holds the lock and runs the plugin.
    WaitingForLock {
        /// Command of the plugin, as configured.
        command: String,
        /// Process id of the lock holder, if known.
        holder: Option<u32>,
    },
    /// The cache directory cannot be used. The plugin is run without a cache.
    CacheUnusable {
        /// Path of the directory or file.
        path: String,
        /// Why it cannot be used.
        reason: StoreError,
    },
    /// The cache directory is unknown: neither `HOME` nor `--cache-dir` is set.
    NoDirectory,
    /// The credential could not be encrypted and was not cached.
    NotEncrypted(SealError),
    /// A policy does not allow the plugin.
    NotAllowed(CacheAllowError),
    /// The plugin could not be started, timed out or exceeded a limit.
    RunFailed {
        /// Command of the plugin, as configured.
        command: String,
        /// Why the run failed.
        reason: RunError,
    },
    /// The plugin was not found.
    NotFound(crate::LookupError),
    /// The run that this process waited for failed.
    SharedFailure {
        /// Command of the plugin, as configured.
        command: String,
        /// The plugin's sanitized standard error.
        message: String,
    },
    /// The last login failed, and its cooldown has not passed.
    LoginCooldown {
        /// Command of the plugin, as configured.
        command: String,
        /// The plugin's sanitized standard error.
        message: String,
        /// Time until the plugin may be run again.
        remaining: Duration,
    },
}

impl CacheWarning {
    /// Returns whether a response follows. If not, this is an error.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::WaitingForLock { .. } | Self::CacheUnusable { .. } | Self::NoDirectory | Self::NotEncrypted(_)
        )
    }

    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoDirectory => Some("set HOME or pass --cache-dir"),
            Self::CacheUnusable { reason: StoreError::NotPrivate { .. }, .. } => {
                Some("if you created its content, run `chmod 700` on it; otherwise remove it")
            }
            Self::CacheUnusable { reason: StoreError::WrongOwner { .. }, .. } => {
                Some("set HOME to your own home directory or pass --cache-dir")
            }
            Self::CacheUnusable { reason: StoreError::NotRegular, .. } => {
                Some("replace it by a directory or pass another one with --cache-dir")
            }
            Self::NotEncrypted(_) => Some("remove --encrypt to store it unencrypted in a file that only you can read"),
            Self::LoginCooldown { .. } => {
                Some("log in from a terminal, or pass --force-refresh to `credlet cache` to skip the cooldown")
            }
            _ => None,
        }
    }
}

/// One clause. The plugin's standard error follows on separate lines.
impl fmt::Display for CacheWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitingForLock { command, holder: Some(pid) } => {
                write!(f, "waiting for process {pid} to run `{command}`")
            }
            Self::WaitingForLock { command, holder: None } => {
                write!(f, "waiting for another process to run `{command}`")
            }
            Self::CacheUnusable { path, reason } => write!(f, "cannot use the cache at {path}: {reason}"),
            Self::NoDirectory => f.write_str("cannot use the cache: its directory is unknown"),
            Self::NotEncrypted(reason) => {
                write!(f, "the credential is not cached: failed to encrypt it: {reason}")
            }
            Self::NotAllowed(reason) => reason.fmt(f),
            Self::RunFailed { command, reason } => write!(f, "failed to run `{command}`: {reason}"),
            Self::NotFound(reason) => reason.fmt(f),
            Self::SharedFailure { command, message } => {
                write!(f, "`{command}` failed in the process that this one waited for{}", PluginMessage(message))
            }
            Self::LoginCooldown { command, message, remaining } => {
                let seconds = remaining.as_secs() + 1;
                write!(
                    f,
                    "the last login with `{command}` failed, next attempt in {seconds} s{}",
                    PluginMessage(message)
                )
            }
        }
    }
}

/// Standard error of a plugin, on lines below the message.
struct PluginMessage<'a>(&'a str);

impl fmt::Display for PluginMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.trim() {
            "" => Ok(()),
            text => write!(f, ":\n{text}"),
        }
    }
}
