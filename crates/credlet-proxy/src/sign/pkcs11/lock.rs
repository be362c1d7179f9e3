//! Lock file of a token, shared by the proxies of one user that have a session on it.
//!
//! A TPM without a resource manager has room for the objects of one session. While one proxy closes its session, the next
//! one fails to log in with `CKR_GENERAL_ERROR` or `CKR_DEVICE_MEMORY`. Which tokens behave like this is not known
//! beforehand, so a token is opened at once and, if that fails while another proxy holds the lock, again when the lock is
//! free.
//!
//! The lock is exclusive while a token is being opened by the only user, and shared from then on until the library has been
//! finalized. The kernel releases it if the process dies.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use aws_lc_rs::digest;
use credlet_exec::{Clock as _, SystemClock};
use credlet_platform::fs::{is_at_path, open_regular_no_follow};

use super::Pkcs11Error;

/// Time limit of the retries. Closing takes at most the drain limit and the close limit of the other proxy, 20 s together; the starter of a
/// daemon waits 25 s for it.
pub(super) const CONTENTION_LIMIT: Duration = Duration::from_secs(20);

/// Backoff between attempts while another proxy has the token open. The first interval is short, for a session that is being closed; it
/// doubles because each attempt disturbs the other proxy.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);
const LONGEST_INTERVAL: Duration = Duration::from_secs(4);

/// Prefix of the file names. `crate::dir` removes files of this name that are not locked.
const PREFIX: &str = "token-";

/// Opens a token with `attempt`, which registers the token before it opens a session.
///
/// An attempt that fails because of contention is repeated for up to `limit` while other processes hold the token's lock,
/// and once more when they have released it. Without a directory for lock files there is one attempt.
///
/// # Errors
/// The error of the last attempt; [`Pkcs11Error::Busy`] if other processes held the lock until the end.
pub(super) fn open_in_turn<T>(
    dir: Option<&Path>,
    limit: Duration,
    mut attempt: impl FnMut(&mut LockRegistration<'_>) -> Result<T, Pkcs11Error>,
) -> Result<(T, Option<TokenLock>), Pkcs11Error> {
    let deadline = now() + limit;
    let mut registration = LockRegistration { dir, deadline, lock: None, token: String::new() };
    let mut interval = FIRST_INTERVAL;
    loop {
        let error = match attempt(&mut registration) {
            Ok(opened) => return Ok((opened, registration.lock.and_then(TokenLock::share))),
            Err(error) => error,
        };
        // The holder of an exclusive lock competes with no other proxy: the error has another cause.
        let lock = registration.lock.take().filter(|lock| !lock.exclusive && error.is_contention());
        let Some(lock) = lock else { return Err(error) };
        let remaining = deadline.saturating_sub(now());
        if remaining.is_zero() {
            return Err(Pkcs11Error::Busy { token: registration.token, reason: error.to_string() });
        }
        tracing::debug!(%error, "another proxy has this token open; retrying");
        registration.lock = lock.wait_exclusive(interval.min(remaining), deadline);
        interval = (interval * 2).min(LONGEST_INTERVAL);
    }
}

/// Passed to each attempt to open a token.
pub(super) struct LockRegistration<'a> {
    dir: Option<&'a Path>,
    deadline: Duration,
    lock: Option<TokenLock>,
    token: String,
}

impl LockRegistration<'_> {
    /// Takes the lock of this token unless an earlier attempt has taken it. Without a lock the token is opened all the
    /// same: the lock prevents failures, it does not protect anything.
    pub(super) fn register(&mut self, module: &Path, label: &str, serial: &str) {
        self.token = label.to_owned();
        if let (None, Some(dir)) = (&self.lock, self.dir) {
            self.lock = TokenLock::acquire(dir.join(file_name(module, label, serial)), self.deadline)
                .inspect_err(|error| tracing::debug!(%error, "failed to lock the token's lock file"))
                .ok()
                .flatten();
        }
    }
}

/// A lock on a token's file. Dropping the last one removes the file.
#[derive(Debug)]
pub(super) struct TokenLock {
    path: PathBuf,
    file: File,
    exclusive: bool,
}

impl TokenLock {
    /// An exclusive lock if no other process has one, else a shared one. `None`: another process had an exclusive lock
    /// until the deadline.
    fn acquire(path: PathBuf, deadline: Duration) -> io::Result<Option<Self>> {
        loop {
            let file = open(&path)?;
            let (file, exclusive) = match file.try_lock() {
                Ok(()) => (file, true),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => match file.try_lock_shared() {
                    Ok(()) => (file, false),
                    Err(TryLockError::Error(error)) => return Err(error),
                    // Another process is opening the token.
                    Err(TryLockError::WouldBlock) => {
                        let remaining = deadline.saturating_sub(now());
                        let Some(file) = lock_within(file, remaining, File::lock_shared)? else { return Ok(None) };
                        (file, false)
                    }
                },
            };
            if is_at_path(&file, &path) {
                return Ok(Some(Self { path, file, exclusive }));
            }
        }
    }

    /// Releases this lock, waits until no other process has one, and takes it exclusively; after `limit` it is taken as by
    /// [`acquire`](Self::acquire).
    fn wait_exclusive(self, limit: Duration, deadline: Duration) -> Option<Self> {
        let path = self.path.clone();
        let file = open(&path).ok()?;
        drop(self);
        match lock_within(file, limit, File::lock) {
            Ok(Some(file)) if is_at_path(&file, &path) => Some(Self { path, file, exclusive: true }),
            _ => Self::acquire(path, deadline).ok().flatten(),
        }
    }

    /// Lets other processes share the lock. `None`: the system refuses.
    fn share(mut self) -> Option<Self> {
        if self.exclusive {
            self.file.lock_shared().ok()?;
            self.exclusive = false;
        }
        Some(self)
    }
}

impl Drop for TokenLock {
    fn drop(&mut self) {
        // A process that has opened the file meanwhile finds that it is not at this path and opens it again.
        if self.file.try_lock().is_ok() && is_at_path(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_name(module: &Path, label: &str, serial: &str) -> String {
    let module = fs::canonicalize(module).unwrap_or_else(|_| module.to_owned());
    let mut hash = digest::Context::new(&digest::SHA256);
    for part in [module.as_os_str().as_encoded_bytes(), label.as_bytes(), serial.as_bytes()] {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    format!("{PREFIX}{}", credlet_api::hex(&hash.finish().as_ref()[..16]))
}

fn open(path: &Path) -> io::Result<File> {
    open_regular_no_follow(path, File::options().read(true).write(true).create(true).truncate(false))
}

/// `flock` has no time limit, so another thread calls it. If it gets the lock after the limit, it releases it at once.
fn lock_within(file: File, limit: Duration, lock: fn(&File) -> io::Result<()>) -> io::Result<Option<File>> {
    let (give, take) = mpsc::channel();
    thread::Builder::new().name("token-lock".to_owned()).stack_size(64 << 10).spawn(move || {
        let locked = lock(&file);
        let _ = give.send(locked.map(|()| file));
    })?;
    take.recv_timeout(limit).ok().transpose()
}

fn now() -> Duration {
    SystemClock::new().monotonic()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const MODULE: &str = "/no/module.so";

    /// A token with room for one session, like a TPM without a resource manager.
    #[derive(Clone, Default)]
    struct SmallToken(Arc<AtomicUsize>);

    struct Session(SmallToken);

    impl SmallToken {
        fn open(&self, registration: &mut LockRegistration<'_>) -> Result<Session, Pkcs11Error> {
            registration.register(MODULE.as_ref(), "tpm", "0");
            match self.0.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => Ok(Session(self.clone())),
                Err(_) => Err(failed("GeneralError")),
            }
        }
    }

    impl Drop for Session {
        fn drop(&mut self) {
            self.0.0.store(0, Ordering::SeqCst);
        }
    }

    fn failed(said: &str) -> Pkcs11Error {
        Pkcs11Error::Failed { doing: "logging in", said: said.to_owned(), lost: true, contention: true }
    }

    fn open_with(
        dir: &Path,
        limit: Duration,
        token: &SmallToken,
        attempts: &AtomicUsize,
    ) -> Result<(Session, Option<TokenLock>), Pkcs11Error> {
        open_in_turn(Some(dir), limit, |registration| {
            attempts.fetch_add(1, Ordering::SeqCst);
            token.open(registration)
        })
    }

    /// The race of issue 14: the second proxy logs in while the first one still closes its session.
    #[test]
    fn waits_for_closing_session() {
        let dir = tempfile::tempdir().unwrap();
        let (token, attempts) = (SmallToken::default(), AtomicUsize::new(0));
        let (session, lock) = open_with(dir.path(), CONTENTION_LIMIT, &token, &attempts).unwrap();
        assert_eq!(attempts.load(Ordering::SeqCst), 1);
        thread::scope(|scope| {
            let next = scope.spawn(|| open_with(dir.path(), Duration::from_secs(600), &token, &attempts));
            while attempts.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            // As when a token is dropped: first the session, then the lock.
            drop(session);
            drop(lock);
            let (_session, lock) = next.join().unwrap().unwrap();
            assert!(lock.is_some_and(|lock| !lock.exclusive));
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the last one removes the lock file");
    }

    #[test]
    fn reports_busy_while_token_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let (token, attempts) = (SmallToken::default(), AtomicUsize::new(0));
        let first = open_with(dir.path(), CONTENTION_LIMIT, &token, &attempts).unwrap();
        let error = open_with(dir.path(), Duration::ZERO, &token, &attempts).map(drop).unwrap_err();
        assert!(matches!(&error, Pkcs11Error::Busy { token, .. } if token == "tpm"), "{error}");
        assert_eq!(attempts.load(Ordering::SeqCst), 2);
        drop(first);
        open_with(dir.path(), Duration::ZERO, &token, &attempts).map(drop).unwrap();
    }

    /// A login counts as a PIN try: it is not repeated when no other proxy can be the reason that it failed.
    #[test]
    fn does_not_retry_without_contention() {
        let dir = tempfile::tempdir().unwrap();
        let pin = || Pkcs11Error::Pin { token: "t".to_owned(), reason: "does not accept the PIN" };
        let tries = |dir: Option<&Path>, error: &dyn Fn() -> Pkcs11Error| {
            let mut attempts = 0;
            let opened = open_in_turn(dir, CONTENTION_LIMIT, |registration| {
                attempts += 1;
                registration.register(MODULE.as_ref(), "t", "1");
                Err::<(), _>(error())
            });
            assert!(opened.is_err());
            attempts
        };
        let error = || failed("GeneralError");
        assert_eq!(tries(Some(dir.path()), &error), 1, "alone");
        assert_eq!(tries(None, &error), 1, "without a directory");
        let other = open_in_turn(Some(dir.path()), Duration::ZERO, |registration| {
            registration.register(MODULE.as_ref(), "t", "1");
            Ok(())
        });
        assert_eq!(tries(Some(dir.path()), &pin), 1, "a refused PIN");
        drop(other);
    }

    #[test]
    fn opens_shareable_tokens_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            open_in_turn(Some(dir.path()), Duration::ZERO, |registration| {
                registration.register(MODULE.as_ref(), "t", "1");
                Ok(())
            })
        };
        let (first, second) = (open().unwrap(), open().unwrap());
        assert!(first.1.is_some() && second.1.is_some());
    }

    /// Many proxies of one token, one after the other and all at once: each gets its turn.
    #[test]
    fn many_proxies_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let (token, attempts) = (SmallToken::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        drop(open_with(dir.path(), Duration::from_secs(600), &token, &attempts).unwrap());
                    }
                });
            }
        });
        assert!(attempts.load(Ordering::SeqCst) >= 20);
    }
}
