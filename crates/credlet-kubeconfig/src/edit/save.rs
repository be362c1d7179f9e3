use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use credlet_platform::fs::{ReadError, read_bounded};
use zeroize::Zeroizing;

use credlet_platform::store::{StoreError, replace_file};

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
    let _lock = KubeconfigLock::acquire(path)?;
    match read_bounded(path, old.len() as u64) {
        Ok(found) if *found == old.as_bytes() => {}
        Ok(_) | Err(ReadError::TooLarge { .. }) => return Err(SaveError::Changed.into()),
        Err(error) => return Err(SaveError::system(error.kind().into()).into()),
    }
    let backup = create_backup(path, old).map_err(SaveError::system)?;
    let written = new(&backup).and_then(|new| Ok(replace_file(path, new.as_bytes()).map_err(SaveError::Write)?));
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
        match File::options().write(true).create_new(true).mode(0o600).open(&backup) {
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

/// kubectl's lock: a file beside the kubeconfig, created exclusively and removed on drop.
struct KubeconfigLock(PathBuf);

impl KubeconfigLock {
    fn acquire(path: &Path) -> Result<Self, SaveError> {
        let lock = with_suffix(path, ".lock");
        match File::options().write(true).create_new(true).open(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(SaveError::Locked { lock }),
            Err(error) => Err(SaveError::system(error)),
        }
    }
}

impl Drop for KubeconfigLock {
    fn drop(&mut self) {
        // If this fails, `SaveError::Locked` names the file to remove.
        let _ = fs::remove_file(&self.0);
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
