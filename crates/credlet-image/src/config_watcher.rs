//! Detects changed configuration files by polling their metadata from lookups, without a thread.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use credlet_platform::fs::FileVersion;

use crate::config;

/// Metadata of the configuration files at the last check.
#[derive(Debug)]
pub(crate) struct ConfigWatcher(Mutex<WatchState>);

#[derive(Debug)]
struct WatchState {
    checked_at: Duration,
    files: Vec<FileStamp>,
}

/// A file and its version, `None` for a missing file.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    version: Option<FileVersion>,
}

impl ConfigWatcher {
    /// Records the current metadata. Read the files afterwards, so that no change is missed.
    pub(crate) fn new(config: &Path, now: Duration) -> Self {
        Self(Mutex::new(WatchState { checked_at: now, files: stamps(config) }))
    }

    /// Whether the files have changed since the last check, or `None` if that was less than `every` ago or another thread is
    /// checking.
    pub(crate) fn check(&self, config: &Path, every: Duration, now: Duration) -> Option<bool> {
        let mut state = match self.0.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        if now.saturating_sub(state.checked_at) < every {
            return None;
        }
        state.checked_at = now;
        let files = stamps(config);
        let changed = files != state.files;
        state.files = files;
        Some(changed)
    }
}

fn stamps(config: &Path) -> Vec<FileStamp> {
    let stamp = |path: PathBuf| {
        // Follows links: an update of a ConfigMap volume replaces a symbolic link.
        FileStamp { version: fs::metadata(&path).ok().map(|found| FileVersion::new(&found)), path }
    };
    config::list(config).into_iter().map(stamp).collect()
}
