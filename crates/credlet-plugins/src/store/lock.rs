use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use super::{Store, StoreError};

/// How long nobody is told that we wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// One process's turn. Ends when this is dropped, or the process dies, however it dies: the kernel sees to that.
///
/// The lock is on a file of its own, which stays: to lock a file that is replaced or removed is to lock nothing.
#[derive(Debug)]
#[must_use = "the turn ends when this is dropped"]
pub struct Lock(File);

impl Store {
    /// Waits until it is our turn with `name`, at most for `limit`. After a second `waiting` is told once that we wait,
    /// and for which process.
    ///
    /// # Errors
    /// When it takes too long, or there can be no lock here.
    pub fn lock(&self, name: &str, limit: Duration, waiting: impl FnOnce(Option<u32>)) -> Result<Lock, StoreError> {
        let file = self.scratch(&lock_name(name))?;
        match file.try_lock() {
            Ok(()) => return Ok(Lock::taken(file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // The kernel wakes whoever is next at once, but knows no limits; so it is asked on another thread. One that we
        // gave up on gets its lock some day, finds nobody to give it to, and lets go of it.
        let (give, take) = mpsc::channel();
        let queue = file.try_clone()?;
        std::thread::Builder::new().spawn(move || {
            let locked = queue.lock();
            let _ = give.send(locked.map(|()| queue));
        })?;
        let (first, rest) = (limit.min(PATIENCE), limit.saturating_sub(PATIENCE));
        let locked = take.recv_timeout(first).or_else(|error| match error {
            mpsc::RecvTimeoutError::Timeout if !rest.is_zero() => {
                waiting(holder(&file));
                take.recv_timeout(rest)
            }
            error => Err(error),
        });
        match locked {
            Ok(locked) => Ok(Lock::taken(locked?)),
            Err(_) => Err(StoreError::Locked { holder: holder(&file) }),
        }
    }

    /// Our turn with `name`, if it can be had at once.
    ///
    /// # Errors
    /// When there can be no lock here.
    pub fn try_lock(&self, name: &str) -> Result<Option<Lock>, StoreError> {
        let file = self.scratch(&lock_name(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock::taken(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl Lock {
    /// Leaves our number for those who wait. On a full disk they do without.
    fn taken(mut file: File) -> Self {
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
        Self(file)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Else the next one takes us for the holder. The thread that waited has a handle of the same lock, so closing
        // ours may not be enough.
        let _ = self.0.set_len(0);
        let _ = self.0.unlock();
    }
}

/// The file beside the data, never the data itself.
pub(super) fn lock_name(name: &str) -> String {
    format!("{name}.lock")
}

fn holder(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
