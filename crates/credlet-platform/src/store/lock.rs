use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Store, StoreError};
use crate::Clock;

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
        let file = match self.lock_or_file(name)? {
            Ok(lock) => return Ok(lock),
            Err(file) => file,
        };
        let (sender, receiver) = mpsc::channel();
        wait_in_thread(&file, move |locked| drop(sender.send(locked)))?;
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

    /// Like [`lock`](Self::lock), without blocking the thread. A cancelled call does not keep the lock.
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub async fn lock_async(
        &self,
        name: &str,
        clock: &dyn Clock,
        timeout: Duration,
        waiting: impl FnOnce(Option<u32>),
    ) -> Result<StoreLock, StoreError> {
        let file = match self.lock_or_file(name)? {
            Ok(lock) => return Ok(lock),
            Err(file) => file,
        };
        let (sender, mut receiver) = oneshot::channel();
        wait_in_thread(&file, move |locked| drop(sender.send(locked)))?;
        let (first, rest) = (timeout.min(REPORT_AFTER), timeout.saturating_sub(REPORT_AFTER));
        let mut locked = receive_within(&mut receiver, clock, first).await;
        if locked.is_none() && !rest.is_zero() {
            waiting(holder(&file));
            locked = receive_within(&mut receiver, clock, rest).await;
        }
        match locked {
            Some(locked) => Ok(StoreLock::acquired(locked?)),
            None => Err(StoreError::Locked { holder: holder(&file) }),
        }
    }

    /// Acquires the lock of `name` if it is free.
    ///
    /// # Errors
    /// Fails if the lock file cannot be used.
    pub fn try_lock(&self, name: &str) -> Result<Option<StoreLock>, StoreError> {
        Ok(self.lock_or_file(name)?.ok())
    }

    /// Returns the lock file as the inner error if another process holds the lock.
    fn lock_or_file(&self, name: &str) -> Result<Result<StoreLock, File>, StoreError> {
        let file = self.scratch(&lock_name(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Ok(StoreLock::acquired(file))),
            Err(TryLockError::WouldBlock) => Ok(Err(file)),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

/// Acquires the lock in another thread and passes it to `done`: a blocking `flock` wakes up at once but has no timeout. If
/// `done` drops the file because the caller no longer waits, the lock is released.
fn wait_in_thread(file: &File, done: impl FnOnce(io::Result<File>) + Send + 'static) -> Result<(), StoreError> {
    let file = file.try_clone()?;
    std::thread::Builder::new().spawn(move || {
        let locked = file.lock();
        done(locked.map(|()| file));
    })?;
    Ok(())
}

async fn receive_within<T>(receiver: &mut oneshot::Receiver<T>, clock: &dyn Clock, timeout: Duration) -> Option<T> {
    tokio::select! {
        received = receiver => received.ok(),
        () = clock.sleep(timeout) => None,
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
        // `wait_in_thread` may still have a handle of the same file description open.
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
