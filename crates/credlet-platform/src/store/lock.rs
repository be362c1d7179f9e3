use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use super::{Store, StoreError};

/// How long to wait before the callback reports that we are waiting.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// An advisory lock of a [`Store`] entry. Released on drop, and by the kernel when the process exits.
///
/// The lock file is separate from the data file and is never removed: a lock on a file that is replaced would have no effect.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct StoreLock(File);

impl Store {
    /// Acquires the lock of `name`, waiting at most `timeout`. After a second, calls `waiting` once with the process id of the
    /// holder.
    ///
    /// # Errors
    /// Fails after `timeout`, or if the lock file cannot be used.
    pub fn lock(
        &self,
        name: &str,
        timeout: Duration,
        waiting: impl FnOnce(Option<u32>),
    ) -> Result<StoreLock, StoreError> {
        let file = self.scratch(&lock_name(name))?;
        match file.try_lock() {
            Ok(()) => return Ok(StoreLock::acquired(file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // A blocking `flock` wakes up at once but has no timeout, so another thread calls it. After a timeout that thread
        // acquires the lock later, fails to send it and releases it.
        let (sender, receiver) = mpsc::channel();
        let waiting_file = file.try_clone()?;
        std::thread::Builder::new().spawn(move || {
            let locked = waiting_file.lock();
            let _ = sender.send(locked.map(|()| waiting_file));
        })?;
        let (first, rest) = (timeout.min(REPORT_AFTER), timeout.saturating_sub(REPORT_AFTER));
        let locked = receiver.recv_timeout(first).or_else(|error| match error {
            mpsc::RecvTimeoutError::Timeout if !rest.is_zero() => {
                waiting(holder(&file));
                receiver.recv_timeout(rest)
            }
            error => Err(error),
        });
        match locked {
            Ok(locked) => Ok(StoreLock::acquired(locked?)),
            Err(_) => Err(StoreError::Locked { holder: holder(&file) }),
        }
    }

    /// Acquires the lock of `name` if it is free.
    ///
    /// # Errors
    /// Fails if the lock file cannot be used.
    pub fn try_lock(&self, name: &str) -> Result<Option<StoreLock>, StoreError> {
        let file = self.scratch(&lock_name(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(StoreLock::acquired(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl StoreLock {
    /// Writes our process id for waiting processes. Fails silently on a full disk.
    fn acquired(mut file: File) -> Self {
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
        Self(file)
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // Clears the process id, so that a waiter does not report this process. Unlocks explicitly, because the thread in
        // `lock` may still have a handle of the same file description open.
        let _ = self.0.set_len(0);
        let _ = self.0.unlock();
    }
}

/// Name of the lock file of an entry.
pub(super) fn lock_name(name: &str) -> String {
    format!("{name}.lock")
}

fn holder(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
