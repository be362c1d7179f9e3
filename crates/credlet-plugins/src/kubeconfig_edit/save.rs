use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::store::{StoreError, replace_file};

/// Puts `new` in the place of `old`, with a copy of `old` beside it. Gives the copy's path; no earlier copy is lost.
///
/// # Errors
/// When it cannot be written, or somebody has changed it meanwhile. It is as it was then.
pub fn save(path: &Path, old: &str, new: &str) -> Result<PathBuf, SaveError> {
    save_knowing(path, old, |_| Ok(Zeroizing::new(new.to_owned())))
}

/// The same for a text that says where the copy is. If there is no such text, there is no copy either.
///
/// # Errors
/// As for [`save`], and those of `new`.
pub fn save_knowing<E: From<SaveError>>(
    path: &Path,
    old: &str,
    new: impl FnOnce(&Path) -> Result<Zeroizing<String>, E>,
) -> Result<PathBuf, E> {
    let _lock = Lock::take(path)?;
    if fs::read(path).map_err(SaveError::system)? != old.as_bytes() {
        return Err(SaveError::Changed.into());
    }
    let backup = keep_copy(path, old).map_err(SaveError::system)?;
    let written = new(&backup).and_then(|new| Ok(replace_file(path, new.as_bytes()).map_err(SaveError::Write)?));
    if written.is_err() {
        // It would be taken for a copy of something.
        let _ = fs::remove_file(&backup);
    }
    written.map(|()| backup)
}

fn keep_copy(path: &Path, old: &str) -> io::Result<PathBuf> {
    for number in 1.. {
        let suffix = if number == 1 { ".before-credlet".to_owned() } else { format!(".before-credlet-{number}") };
        let backup = beside(path, &suffix);
        // It may hold tokens, whatever the mode of the file itself.
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

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// kubectl's lock: a file beside the kubeconfig that must not exist yet. Dropping it removes the file.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Self, SaveError> {
        let lock = beside(path, ".lock");
        match File::options().write(true).create_new(true).open(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(SaveError::Locked { lock }),
            Err(error) => Err(SaveError::system(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever finds it is told its name.
        let _ = fs::remove_file(&self.0);
    }
}

/// Why a kubeconfig was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// Another program is writing it.
    #[error("it is locked: if no other program is writing it, remove {}", lock.display())]
    Locked {
        /// What to remove.
        lock: PathBuf,
    },
    /// Another program has written it.
    #[error("somebody has changed it meanwhile")]
    Changed,
    /// It cannot be written.
    #[error("it cannot be written: {0}")]
    Write(StoreError),
}

impl SaveError {
    fn system(error: io::Error) -> Self {
        Self::Write(error.into())
    }
}
