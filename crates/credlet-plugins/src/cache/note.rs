use std::fmt;
use std::time::Duration;

use credlet_core::RunError;

use super::AllowError;
use crate::store::{SealError, StoreError};

/// Something that a person should know, while the answer is on its way or instead of one.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note {
    /// Somebody else is asking the plugin already.
    Waiting {
        /// The plugin.
        command: String,
        /// The process.
        holder: Option<u32>,
    },
    /// The cache is of no use, and the plugin is run as if there was none.
    NoCache {
        /// Where it is.
        path: String,
        /// What is wrong with it.
        reason: StoreError,
    },
    /// There is no place for a cache.
    NoDirectory,
    /// What should be encrypted is not.
    NotEncrypted(SealError),
    /// The plugin may not be run.
    NotAllowed(AllowError),
    /// The plugin was not run, or not to its end.
    NotRun {
        /// The plugin.
        command: String,
        /// Why not.
        reason: RunError,
    },
    /// There is no such program.
    NotFound(credlet_core::LookupError),
    /// The run that this one waited for failed.
    Shared {
        /// The plugin.
        command: String,
        /// What it wrote.
        message: String,
    },
    /// The last login failed, and nobody is asked again for a while.
    Paused {
        /// The plugin.
        command: String,
        /// What it wrote.
        message: String,
        /// For how long.
        left: Duration,
    },
}

impl Note {
    /// Whether there is an answer all the same.
    pub fn is_warning(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::NoCache { .. } | Self::NoDirectory | Self::NotEncrypted(_))
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoDirectory => Some("set HOME, or name a directory with --cache-dir"),
            Self::NoCache {
                reason: StoreError::NotPrivate { .. } | StoreError::NotOurs { .. } | StoreError::NotPlain,
                ..
            } => Some("remove it if you do not know how it came there"),
            Self::Paused { .. } => {
                Some("log in from a terminal, or put --force-refresh behind `credlet cache` to ask at once")
            }
            _ => None,
        }
    }
}

/// One clause; what a plugin wrote follows on lines of its own.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { command, holder: Some(pid) } => {
                write!(f, "waiting for process {pid}, which runs `{command}`")
            }
            Self::Waiting { command, holder: None } => write!(f, "waiting for another process, which runs `{command}`"),
            Self::NoCache { path, reason } => write!(f, "the cache is not used, because of {path}: {reason}"),
            Self::NoDirectory => f.write_str("the cache is not used: there is no directory for it"),
            Self::NotEncrypted(reason) => write!(f, "the entry is kept without encryption: {reason}"),
            Self::NotAllowed(reason) => reason.fmt(f),
            Self::NotRun { command, reason } => write!(f, "`{command}` was not run to its end: {reason}"),
            Self::NotFound(reason) => reason.fmt(f),
            Self::Shared { command, message } => {
                write!(f, "`{command}` failed for another process, which this one waited for{}", Said(message))
            }
            Self::Paused { command, message, left } => {
                let seconds = left.as_secs() + 1;
                write!(
                    f,
                    "`{command}` is not asked again for {seconds} s, because its last login failed{}",
                    Said(message)
                )
            }
        }
    }
}

struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.trim() {
            "" => Ok(()),
            text => write!(f, ":\n{text}"),
        }
    }
}
