//! Whether a configuration has changed, found out by whoever comes along: no thread, and a look in a while.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use crate::config;

/// What the files of a configuration looked like when somebody last looked.
#[derive(Debug)]
pub(crate) struct Watch(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    at: Duration,
    files: Vec<Stamp>,
}

/// A file without its content: whoever writes it changes at least one of these.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    file: Option<(u64, u64, u64)>,
    written: Option<(i64, i64)>,
    changed: Option<(i64, i64)>,
}

impl Watch {
    /// Looks for the first time. Read the files after that, so that no change is missed.
    pub(crate) fn new(config: &Path, now: Duration) -> Self {
        Self(Mutex::new(Seen { at: now, files: stamps(config) }))
    }

    /// Whether anything has changed since the last look. `None`: it is too early for another, or somebody else looks.
    pub(crate) fn look(&self, config: &Path, every: Duration, now: Duration) -> Option<bool> {
        let mut seen = match self.0.try_lock() {
            Ok(seen) => seen,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => return None,
        };
        if now.saturating_sub(seen.at) < every {
            return None;
        }
        seen.at = now;
        let files = stamps(config);
        let changed = files != seen.files;
        seen.files = files;
        Some(changed)
    }
}

fn stamps(config: &Path) -> Vec<Stamp> {
    let stamp = |path: PathBuf| {
        // Through links: in a volume of a ConfigMap they are what changes.
        let found = fs::metadata(&path).ok();
        let found = found.as_ref();
        Stamp {
            file: found.map(|found| (found.dev(), found.ino(), found.size())),
            written: found.map(|found| (found.mtime(), found.mtime_nsec())),
            changed: found.map(|found| (found.ctime(), found.ctime_nsec())),
            path,
        }
    };
    config::list(config).into_iter().map(stamp).collect()
}
