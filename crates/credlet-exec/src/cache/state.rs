//! State that all cache directories of a user share: the secret that keys are computed with, and the directories in use.
//!
//! The name of an entry is a digest keyed with the secret. So nothing about the inputs can be guessed from a file name, no
//! entry can be prepared without the secret, and **removing the secret invalidates every entry**, in whatever directory and
//! for whatever environment it was stored, also one that a running plugin is about to store.
//!
//! The state is found through the account database, since a kubeconfig can set `HOME` and `XDG_CACHE_HOME` for its plugin:
//! `credlet/state` in the [cache directory](credlet_platform::dirs) below that home. Where it cannot be created (a read-only
//! home, a user without an account), each cache directory has its own secret. Where it is open to others, nothing is cached.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Env;
use aws_lc_rs::rand;
use credlet_platform::dirs::CACHE_IN_HOME;
use credlet_platform::fs::path_from_bytes;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{listing, options};
use crate::store::{Store, StoreError};

const SECRET: &str = "cache-secret";
const DIRECTORIES: &str = "cache-directories";

/// The list of directories begins with this line; each other line is a path in hexadecimal digits.
const DIRECTORIES_MAGIC: &str = "credlet-cache-directories 1";

/// Maximum number of recorded directories. Beyond it, the oldest one is emptied and removed from the list.
const MAX_DIRECTORIES: usize = 64;

const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// Key for the digests that name entries and fingerprint their key parts.
#[derive(Clone)]
pub(super) struct EntrySecret(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for EntrySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EntrySecret([redacted])")
    }
}

impl EntrySecret {
    /// A constant secret, for calls that store nothing and for tests.
    pub(super) fn unkeyed() -> Self {
        Self(Zeroizing::default())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self(Zeroizing::new(bytes.try_into().ok()?)))
    }

    /// Returns a digest for this purpose that cannot be computed without the secret.
    pub(super) fn digest(&self, purpose: &str) -> Sha256 {
        let length = (purpose.len() as u64).to_le_bytes();
        Sha256::new().chain_update(*self.0).chain_update(length).chain_update(purpose)
    }

    /// An identifier of the secret, which is stored in its entries.
    pub(super) fn generation(&self) -> String {
        credlet_api::hex(&self.digest("generation").finalize()[..8])
    }
}

/// The state directory.
#[derive(Debug)]
pub(super) struct CacheState(Store);

/// The state directory cannot be used, so nothing can be cached.
#[derive(Clone, Debug)]
pub(super) struct CacheStateError {
    pub(super) path: PathBuf,
    pub(super) reason: StoreError,
}

impl CacheState {
    /// Opens the user's state directory, or `cache_dir` if it cannot be created.
    pub(super) fn open(env: &dyn Env, cache_dir: &Path) -> Result<Self, CacheStateError> {
        let error = |path: &Path, reason| CacheStateError { path: path.to_owned(), reason };
        if let Some(path) = path(env) {
            let found = Store::open_for_lookup(&path).and_then(|found| found.map_or_else(|| Store::open(&path), Ok));
            match found {
                Ok(store) => return Ok(Self(store)),
                // Other users could have read the secret, and a second secret would make a logout miss entries.
                Err(reason @ (StoreError::NotPrivate { .. } | StoreError::NotRegular)) => {
                    return Err(error(&path, reason));
                }
                Err(_) => {}
            }
        }
        Store::open(cache_dir).map(Self).map_err(|reason| error(cache_dir, reason))
    }

    /// Opens the state and returns it with the secret.
    pub(super) fn with_secret(env: &dyn Env, cache_dir: &Path) -> Result<(Self, EntrySecret), CacheStateError> {
        let state = Self::open(env, cache_dir)?;
        let secret = state.secret().map_err(|reason| CacheStateError { path: state.0.path().to_owned(), reason })?;
        Ok((state, secret))
    }

    /// The secret of the entries in `cache_dir` if it exists.
    pub(super) fn existing_secret(env: &dyn Env, cache_dir: &Path) -> Option<EntrySecret> {
        let shared = path(env).and_then(|path| Store::open_existing(&path).ok().flatten());
        let store = shared.or_else(|| Store::open_existing(cache_dir).ok().flatten())?;
        EntrySecret::decode(&store.read(SECRET).ok()??)
    }

    /// The secret. The first call creates it.
    pub(super) fn secret(&self) -> Result<EntrySecret, StoreError> {
        let Self(store) = self;
        let read = || Ok::<_, StoreError>(store.read(SECRET)?.and_then(|bytes| EntrySecret::decode(&bytes)));
        if let Some(secret) = read()? {
            return Ok(secret);
        }
        let _lock = store.lock(SECRET, LOCK_LIMIT, |_| {})?;
        if let Some(secret) = read()? {
            return Ok(secret);
        }
        let mut secret = Zeroizing::new([0; 32]);
        rand::fill(&mut *secret).map_err(|_| StoreError::Io(io::ErrorKind::Other))?;
        store.write(SECRET, &*secret)?;
        Ok(EntrySecret(secret))
    }

    /// Adds a directory to those that [`known_directories`] lists.
    pub(super) fn record_directory(&self, dir: &Path) -> Result<(), StoreError> {
        let Self(store) = self;
        if directories(store)?.iter().any(|known| known == dir) {
            return Ok(());
        }
        let _lock = store.lock(DIRECTORIES, LOCK_LIMIT, |_| {})?;
        let mut known = directories(store)?;
        if known.len() >= MAX_DIRECTORIES {
            known.retain(|known| known.is_dir());
        }
        while known.len() >= MAX_DIRECTORIES {
            // `cache rm` does not find entries of an unlisted directory. If this fails, a logout still invalidates them.
            let _ = empty(&known.remove(0));
        }
        known.push(dir.to_owned());
        let lines = known.iter().map(|dir| format!("{}\n", credlet_api::hex(dir.as_os_str().as_encoded_bytes())));
        let text: String = std::iter::once(format!("{DIRECTORIES_MAGIC}\n")).chain(lines).collect();
        store.write(DIRECTORIES, text.as_bytes())
    }
}

fn path(env: &dyn Env) -> Option<PathBuf> {
    env.account_home().or_else(|| env.home_dir()).map(|home| home.join(CACHE_IN_HOME).join("credlet/state"))
}

fn directories(store: &Store) -> Result<Vec<PathBuf>, StoreError> {
    let bytes = store.read(DIRECTORIES)?.unwrap_or_default();
    Ok(decode_directories(&bytes))
}

fn decode_directories(bytes: &[u8]) -> Vec<PathBuf> {
    let text = std::str::from_utf8(bytes).ok().and_then(|text| text.strip_prefix(DIRECTORIES_MAGIC));
    let path = |line: &str| {
        let digits = line.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let path = path_from_bytes(digits.collect::<Option<_>>()?);
        path.is_absolute().then_some(path)
    };
    text.unwrap_or_default().lines().filter(|line| !line.is_empty()).filter_map(path).collect()
}

/// Returns every known cache directory of this user: those that entries were stored in, and the defaults of this environment and
/// of the account.
pub fn known_directories(env: &dyn Env) -> Vec<PathBuf> {
    let state = path(env).and_then(|path| Store::open_existing(&path).ok().flatten());
    let recorded = state.and_then(|store| directories(&store).ok()).unwrap_or_default();
    let of_account = env.account_home().map(|home| home.join(CACHE_IN_HOME).join("credlet/exec"));
    let named = [options::directory(None, env), options::default_directory(env), of_account];
    let mut all: Vec<_> = recorded.into_iter().chain(named.into_iter().flatten()).collect();
    all.sort();
    all.dedup();
    all
}

/// Invalidates every entry of every cache of this user, and removes those in known directories. Returns the number of removed
/// entries.
///
/// # Errors
/// If entries may still be served.
pub fn invalidate_all(env: &dyn Env) -> Result<usize, CacheInvalidateError> {
    let mut failed = None;
    let mut fail = |path: &Path, reason| {
        failed.get_or_insert(CacheInvalidateError { path: path.to_owned(), reason });
    };
    // Read before the secret is removed.
    let known = known_directories(env);
    if let Some(path) = path(env) {
        let removed = Store::open_existing(&path).and_then(|store| store.map(|store| store.remove(SECRET)).transpose());
        if let Err(reason) = removed {
            fail(&path, reason);
        }
    }
    let mut removed = 0;
    for dir in known {
        match empty(&dir) {
            Ok(count) => removed += count,
            // Such a directory is not used as a cache either.
            Err(StoreError::WrongOwner { .. } | StoreError::NotPrivate { .. } | StoreError::NotRegular) => {}
            Err(reason) => fail(&dir, reason),
        }
    }
    failed.map_or(Ok(removed), Err)
}

/// Removes the entries in a directory, and its secret if it has one.
fn empty(dir: &Path) -> Result<usize, StoreError> {
    let Some(store) = Store::open_existing(dir)? else { return Ok(0) };
    store.remove(SECRET)?;
    listing::remove(&store, "")
}

/// Cached credentials that could not be invalidated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to invalidate cached credentials in {}: {reason}", path.display())]
pub struct CacheInvalidateError {
    /// Directory in which entries may remain.
    pub path: PathBuf,
    /// Why it failed.
    pub reason: StoreError,
}

#[cfg(test)]
mod tests {
    use crate::FixedEnv;

    use super::*;

    fn env(home: &Path) -> FixedEnv {
        FixedEnv::new([("HOME", "/nonexistent")]).with_account_home(home)
    }

    #[test]
    fn secret_is_shared_and_new_after_invalidation() {
        let home = tempfile::tempdir().unwrap();
        let (env, cache) = (env(home.path()), home.path().join("cache"));
        let generation = || CacheState::open(&env, &cache).unwrap().secret().unwrap().generation();
        let first = generation();
        assert_eq!(generation(), first);
        assert!(!cache.exists());
        assert_eq!(CacheState::existing_secret(&env, &cache).unwrap().generation(), first);
        assert_eq!(invalidate_all(&env), Ok(0));
        assert!(CacheState::existing_secret(&env, &cache).is_none());
        assert_ne!(generation(), first);
    }

    #[test]
    fn damaged_secret_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (env, cache) = (env(home.path()), home.path().join("cache"));
        let state = CacheState::open(&env, &cache).unwrap();
        state.0.write(SECRET, b"short").unwrap();
        let generation = state.secret().unwrap().generation();
        assert_eq!(state.secret().unwrap().generation(), generation);
    }

    #[test]
    fn directories_are_recorded_once_and_bounded() {
        let home = tempfile::tempdir().unwrap();
        let env = env(home.path());
        let state = CacheState::open(&env, Path::new("/nonexistent")).unwrap();
        let dir = |number: usize| home.path().join(format!("d\n{number}"));
        let key = "0".repeat(64);
        for number in 0..=MAX_DIRECTORIES {
            let store = Store::open(&dir(number)).unwrap();
            store.write(&key, b"x").unwrap();
            state.record_directory(&dir(number)).unwrap();
            state.record_directory(&dir(number)).unwrap();
        }
        let known = known_directories(&env);
        assert!(known.contains(&dir(1)) && known.contains(&dir(MAX_DIRECTORIES)) && !known.contains(&dir(0)));
        assert!(!dir(0).join(&key).exists() && dir(1).join(&key).exists());
        assert_eq!(invalidate_all(&env), Ok(MAX_DIRECTORIES));
        assert!(!dir(1).join(&key).exists());
        assert!(decode_directories(b"credlet-cache-directories 1\nzz\n2e\n").is_empty());
    }

    #[test]
    fn state_that_is_open_to_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let (env, cache) = (env(home.path()), home.path().join("cache"));
        drop(CacheState::with_secret(&env, &cache).unwrap());
        let path = home.path().join(CACHE_IN_HOME).join("credlet/state");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = CacheState::with_secret(&env, &cache).unwrap_err();
        assert_eq!((&error.path, error.reason), (&path, StoreError::NotPrivate { mode: 0o755 }));
        assert!(!cache.exists() && CacheState::existing_secret(&env, &cache).is_none());
        assert_eq!(invalidate_all(&env).unwrap_err().path, path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::set_permissions(path.join(SECRET), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(CacheState::with_secret(&env, &cache).unwrap_err().reason, StoreError::NotPrivate { mode: 0o644 });
    }

    #[test]
    fn unusable_account_home_leaves_the_cache_directory() {
        let dir = tempfile::tempdir().unwrap();
        let env = env(Path::new("/proc/none"));
        let cache = dir.path().join("cache");
        let generation = CacheState::open(&env, &cache).unwrap().secret().unwrap().generation();
        assert_eq!(CacheState::existing_secret(&env, &cache).unwrap().generation(), generation);
    }
}
