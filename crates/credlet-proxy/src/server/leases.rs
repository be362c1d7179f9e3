//! Leases of clients, which keep the proxy running.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_platform::fs::{FileId, open_own_no_follow};
use tokio::sync::watch;

/// Clients that need the proxy, by a locked file or for a limited time.
///
/// The kernel releases a `flock` lock when the client exits for any reason. (`fcntl` locks are independent of it.)
/// Watching the parent process would be less reliable, because it changes when a parent thread or process exits.
#[derive(Debug)]
pub(super) struct ClientLeases {
    state: Mutex<LeaseState>,
    held: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct LeaseState {
    /// A client that runs its plugin again uses the same file.
    files: BTreeSet<FileId>,
    /// Whether there was ever a client.
    had_client: bool,
    /// End of the last time-limited lease, on the monotonic clock.
    until: Duration,
    closed: bool,
}

/// Result of a lease request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseOutcome {
    Held,
    /// The lock file does not exist any longer.
    ClientExited,
    /// The proxy is shutting down.
    Closed,
}

impl ClientLeases {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), held: watch::Sender::default() })
    }

    /// Takes a lease that lasts until the lock on this file is released.
    ///
    /// # Errors
    /// If the path is not a regular file of this user.
    pub(super) fn take(self: &Arc<Self>, path: &Path) -> io::Result<LeaseOutcome> {
        let file = match open_own_no_follow(path, File::options().read(true).write(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LeaseOutcome::ClientExited),
            opened => opened?,
        };
        let key = FileId::of_file(&file)?;
        {
            let mut state = self.state();
            if state.closed {
                return Ok(LeaseOutcome::Closed);
            }
            if !state.files.insert(key) {
                return Ok(LeaseOutcome::Held);
            }
            state.had_client = true;
            self.held.send_replace(state.files.len());
        }
        let leases = Arc::clone(self);
        // A blocking `flock` returns as soon as the lock is released, without polling.
        let waiting = std::thread::Builder::new().name("lease".into()).stack_size(64 << 10).spawn(move || {
            wait(&file);
            leases.end(key);
        });
        if waiting.is_err() {
            self.end(key);
        }
        waiting.map(|_| LeaseOutcome::Held)
    }

    /// Extends the time-limited lease, for clients without a lock file. Returns false if the proxy is shutting down.
    pub(super) fn extend_until(&self, monotonic: Duration) -> bool {
        let mut state = self.state();
        state.until = state.until.max(monotonic);
        !state.closed
    }

    /// End of the last time-limited lease.
    pub(super) fn until(&self) -> Duration {
        self.state().until
    }

    /// Whether a client with a lock file has ever connected.
    pub(super) fn had_client(&self) -> bool {
        self.state().had_client
    }

    /// Number of locked files.
    pub(super) fn held(&self) -> watch::Receiver<usize> {
        self.held.subscribe()
    }

    /// Stops accepting leases unless one is held. Returns whether it did.
    pub(super) fn close_if_idle(&self, now: Duration) -> bool {
        let mut state = self.state();
        state.closed |= state.files.is_empty() && state.until <= now;
        state.closed
    }

    /// Stops accepting leases.
    pub(super) fn stop_accepting(&self) {
        self.state().closed = true;
    }

    fn end(&self, key: FileId) {
        let mut state = self.state();
        state.files.remove(&key);
        self.held.send_replace(state.files.len());
    }

    fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blocks until the lock is released. An error other than `EINTR` counts as released.
fn wait(file: &File) {
    while file.lock().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(dir: &tempfile::TempDir, name: &str) -> (File, std::path::PathBuf) {
        let path = dir.path().join(name);
        let file = File::create(&path).unwrap();
        file.lock().unwrap();
        (file, path)
    }

    #[tokio::test]
    async fn lease_lasts_as_long_as_the_lock() {
        let (dir, leases) = (tempfile::tempdir().unwrap(), ClientLeases::new());
        let (ada, path) = locked(&dir, "ada");
        let (bob, other) = locked(&dir, "bob");
        assert_eq!(leases.take(&path).unwrap(), LeaseOutcome::Held);
        assert_eq!(leases.take(&path).unwrap(), LeaseOutcome::Held);
        assert_eq!(leases.take(&other).unwrap(), LeaseOutcome::Held);
        let mut held = leases.held();
        assert_eq!(*held.borrow_and_update(), 2);
        assert!(!leases.close_if_idle(Duration::ZERO));

        drop(ada);
        held.wait_for(|held| *held == 1).await.unwrap();
        drop(bob);
        held.wait_for(|held| *held == 0).await.unwrap();
        assert!(leases.close_if_idle(Duration::ZERO));
        let (_late, path) = locked(&dir, "late");
        assert_eq!(leases.take(&path).unwrap(), LeaseOutcome::Closed);
    }

    #[test]
    fn lease_needs_a_regular_file_of_this_user() {
        let (dir, leases) = (tempfile::tempdir().unwrap(), ClientLeases::new());
        assert_eq!(leases.take(&dir.path().join("nothing")).unwrap(), LeaseOutcome::ClientExited);
        assert!(leases.take(dir.path()).is_err());
        let (_held, path) = locked(&dir, "file");
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        assert!(leases.take(&dir.path().join("link")).is_err());
        assert!(leases.close_if_idle(Duration::ZERO));
    }

    #[test]
    fn time_limited_lease_expires() {
        let leases = ClientLeases::new();
        assert!(leases.extend_until(Duration::from_secs(5)));
        assert!(leases.extend_until(Duration::from_secs(3)));
        assert!(!leases.close_if_idle(Duration::from_secs(4)));
        assert!(leases.close_if_idle(Duration::from_secs(5)));
        assert!(!leases.extend_until(Duration::from_secs(9)));
    }
}
