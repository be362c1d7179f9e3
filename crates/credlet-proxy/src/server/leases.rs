//! Who still needs the proxy.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::sync::watch;

/// The clients that hold on to the proxy: each by a file that it keeps locked, or for a time.
///
/// The lock is `flock`'s, which the kernel frees when the client is gone, however it went. (The other kind, `fcntl`'s,
/// does not see this one.) Nothing else tells so surely: the parent of a process may be a thread that has ended, or a
/// reaper that takes its place.
#[derive(Debug)]
pub(super) struct Leases {
    book: Mutex<Book>,
    held: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Book {
    /// By device and inode. A client that runs its plugin again names the same file.
    files: BTreeSet<(u64, u64)>,
    /// Whether there was ever one.
    any_yet: bool,
    /// By the monotonic time.
    until: Duration,
    closed: bool,
}

/// What became of a client's wish to hold on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Held,
    /// The client is gone already: its file is.
    Gone,
    /// Too late: the proxy is about to end.
    Closed,
}

impl Leases {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { book: Mutex::default(), held: watch::Sender::default() })
    }

    /// Holds on until the lock of this file is free.
    ///
    /// # Errors
    /// When it is no file of this user's.
    pub(super) fn take(self: &Arc<Self>, path: &Path) -> io::Result<Taken> {
        let file = match open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Taken::Gone),
            opened => opened?,
        };
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let key = (found.dev(), found.ino());
        {
            let mut book = self.book();
            if book.closed {
                return Ok(Taken::Closed);
            }
            if !book.files.insert(key) {
                return Ok(Taken::Held);
            }
            book.any_yet = true;
            self.held.send_replace(book.files.len());
        }
        let leases = Arc::clone(self);
        // The kernel wakes it at once; asking now and then would be late or busy.
        let waiting = std::thread::Builder::new().name("lease".into()).stack_size(64 << 10).spawn(move || {
            wait(&file);
            leases.end(key);
        });
        if waiting.is_err() {
            self.end(key);
        }
        waiting.map(|_| Taken::Held)
    }

    /// Holds on until this time, for a client that has no lock. False: too late.
    pub(super) fn take_until(&self, monotonic: Duration) -> bool {
        let mut book = self.book();
        book.until = book.until.max(monotonic);
        !book.closed
    }

    /// Until when somebody holds on for a time.
    pub(super) fn until(&self) -> Duration {
        self.book().until
    }

    /// Whether a client with a lock has ever come, though it be gone again.
    pub(super) fn any_yet(&self) -> bool {
        self.book().any_yet
    }

    /// How many files are locked.
    pub(super) fn held(&self) -> watch::Receiver<usize> {
        self.held.subscribe()
    }

    /// Accepts nobody any more, unless somebody is there.
    pub(super) fn close(&self, now: Duration) -> bool {
        let mut book = self.book();
        book.closed |= book.files.is_empty() && book.until <= now;
        book.closed
    }

    /// Accepts nobody any more, whoever is there.
    pub(super) fn shut(&self) {
        self.book().closed = true;
    }

    fn end(&self, key: (u64, u64)) {
        let mut book = self.book();
        book.files.remove(&key);
        self.held.send_replace(book.files.len());
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Not through a link, and without waiting for the other end if it is a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Any failure but an interruption says that there is no lock to wait for.
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
    async fn a_lease_lasts_as_long_as_the_lock_and_two_runs_of_one_client_have_one() {
        let (dir, leases) = (tempfile::tempdir().unwrap(), Leases::new());
        let (ada, path) = locked(&dir, "ada");
        let (bob, other) = locked(&dir, "bob");
        assert_eq!(leases.take(&path).unwrap(), Taken::Held);
        assert_eq!(leases.take(&path).unwrap(), Taken::Held);
        assert_eq!(leases.take(&other).unwrap(), Taken::Held);
        let mut held = leases.held();
        assert_eq!(*held.borrow_and_update(), 2);
        assert!(!leases.close(Duration::ZERO));

        drop(ada);
        held.wait_for(|held| *held == 1).await.unwrap();
        drop(bob);
        held.wait_for(|held| *held == 0).await.unwrap();
        assert!(leases.close(Duration::ZERO));
        let (_late, path) = locked(&dir, "late");
        assert_eq!(leases.take(&path).unwrap(), Taken::Closed);
    }

    #[test]
    fn a_client_whose_file_is_gone_is_gone_and_what_is_no_file_of_ours_is_refused() {
        let (dir, leases) = (tempfile::tempdir().unwrap(), Leases::new());
        assert_eq!(leases.take(&dir.path().join("nothing")).unwrap(), Taken::Gone);
        assert!(leases.take(dir.path()).is_err());
        let (_held, path) = locked(&dir, "file");
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        assert!(leases.take(&dir.path().join("link")).is_err());
        assert!(leases.close(Duration::ZERO));
    }

    #[test]
    fn a_lease_for_a_time_ends_with_it() {
        let leases = Leases::new();
        assert!(leases.take_until(Duration::from_secs(5)));
        assert!(leases.take_until(Duration::from_secs(3)));
        assert!(!leases.close(Duration::from_secs(4)));
        assert!(leases.close(Duration::from_secs(5)));
        assert!(!leases.take_until(Duration::from_secs(9)));
    }
}
