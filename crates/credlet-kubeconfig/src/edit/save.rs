use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use credlet_platform::fs::create_private_file;
use credlet_platform::fs::{ReadError, read_bounded};
use credlet_platform::store::{StoreError, replace_locked_file};
use zeroize::Zeroizing;

/// Polling interval for kubectl's lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// Replaces a kubeconfig by `new` and stores a backup of `old` beside it. Returns the path of the backup; earlier backups
/// are kept.
///
/// # Errors
/// Returns an error if the file cannot be written or no longer contains `old`. It is then unchanged.
pub fn save(path: &Path, old: &str, new: &str) -> Result<PathBuf, SaveError> {
    save_with_backup(path, old, |_| Ok(Zeroizing::new(new.to_owned())))
}

/// Like [`save`], for a text that contains the path of the backup. If `new` fails, the backup is removed.
///
/// # Errors
/// Those of [`save`], and those of `new`.
pub fn save_with_backup<E: From<SaveError>>(
    path: &Path,
    old: &str,
    new: impl FnOnce(&Path) -> Result<Zeroizing<String>, E>,
) -> Result<PathBuf, E> {
    let lock = KubeconfigLock::acquire(path, Duration::ZERO).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => SaveError::Locked { lock: lock_path(path) },
        _ => SaveError::system(error),
    })?;
    match read_bounded(path, old.len() as u64) {
        Ok(found) if *found == old.as_bytes() => {}
        Ok(_) | Err(ReadError::TooLarge { .. }) => return Err(SaveError::Changed.into()),
        Err(error) => return Err(SaveError::system(error.kind().into()).into()),
    }
    let backup = create_backup(path, old).map_err(SaveError::system)?;
    let written = new(&backup).and_then(|new| Ok(lock.replace(new.as_bytes()).map_err(SaveError::Write)?));
    if written.is_err() {
        // A leftover backup would be mistaken for that of a change.
        let _ = fs::remove_file(&backup);
    }
    written.map(|()| backup)
}

fn create_backup(path: &Path, old: &str) -> io::Result<PathBuf> {
    for number in 1.. {
        let suffix = if number == 1 { ".before-credlet".to_owned() } else { format!(".before-credlet-{number}") };
        let backup = with_suffix(path, &suffix);
        // It may contain tokens, so it is private whatever the mode of the file.
        match create_private_file(&backup) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {}
            opened => {
                let mut file = opened?;
                file.write_all(old.as_bytes())?;
                file.sync_all()?;
                return Ok(backup);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn lock_path(path: &Path) -> PathBuf {
    with_suffix(path, ".lock")
}

/// kubectl's lock: a file beside the kubeconfig, created exclusively (client-go `clientcmd.lockFile`). Removed on drop.
///
/// kubectl does not wait for it, so it must be held only briefly.
#[derive(Debug)]
pub struct KubeconfigLock {
    path: PathBuf,
}

impl KubeconfigLock {
    /// Creates the lock file. Blocks this thread for at most `wait` while it exists.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::AlreadyExists`] if the lock file still exists, and other errors if it cannot be created.
    pub fn acquire(path: &Path, wait: Duration) -> io::Result<Self> {
        let mut left = wait;
        loop {
            match File::options().write(true).create_new(true).open(lock_path(path)) {
                Ok(_) => return Ok(Self { path: path.to_owned() }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !left.is_zero() => {
                    std::thread::sleep(LOCK_INTERVAL.min(left));
                    left = left.saturating_sub(LOCK_INTERVAL);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Replaces the kubeconfig atomically, with the same owner and mode. Symbolic links are kept.
    ///
    /// # Errors
    /// Fails if the file cannot be written. It is then unchanged.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), StoreError> {
        replace_locked_file(&self.path, bytes)
    }
}

impl Drop for KubeconfigLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(lock_path(&self.path)) {
            tracing::warn!(problem = %error.kind(), "failed to remove the lock file of a kubeconfig");
        }
    }
}

/// A kubeconfig that was not saved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The lock file exists.
    #[error("already locked by another program; if none is running, remove {}", lock.display())]
    Locked {
        /// Path of the lock file.
        lock: PathBuf,
    },
    /// Another program changed the file.
    #[error("cannot save: the file was changed by another program")]
    Changed,
    /// The file cannot be written.
    #[error("failed to write the file: {0}")]
    Write(StoreError),
}

impl SaveError {
    fn system(error: io::Error) -> Self {
        Self::Write(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_creates_backup_and_detects_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        fs::write(&path, "old").unwrap();
        assert_eq!(save(&path, "other", "new"), Err(SaveError::Changed));
        assert_eq!(save(&path, "old", "new"), Ok(dir.path().join("config.before-credlet")));
        assert_eq!(save(&path, "new", "newer"), Ok(dir.path().join("config.before-credlet-2")));
        fs::write(dir.path().join("config.lock"), "").unwrap();
        assert!(matches!(save(&path, "newer", "x"), Err(SaveError::Locked { .. })));
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(
            (read("config"), read("config.before-credlet"), read("config.before-credlet-2")),
            ("newer".into(), "old".into(), "new".into())
        );
    }
}
