//! On-disk cache of tokens that can be fetched again: every error means a cache miss.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Clock, Env};
use aws_lc_rs::digest;
use credlet_platform::dirs;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::{Store, StoreError, StoreLock};

/// Age at which [`TokenCache::write_and_sweep`] removes an entry. No token or role session lasts longer.
const MAX_AGE: Duration = Duration::from_secs(48 * 60 * 60);

/// A private directory in the user's cache directory, with one file per entry.
#[derive(Clone, Debug)]
pub struct TokenCache {
    dir: PathBuf,
}

impl TokenCache {
    /// Uses [`cache_dir`]. Returns `None` if the home directory is unknown.
    pub fn in_cache_dir(env: &dyn Env, name: &str) -> Option<Self> {
        cache_dir(env, name).map(|dir| Self { dir })
    }

    /// Opens the directory.
    pub fn store(&self) -> Option<Store> {
        Store::open(&self.dir).map(Some).unwrap_or_else(log_unavailable)
    }

    /// Returns the entry, or `None` if it is missing or unreadable.
    pub fn read(&self, key: &str) -> Option<Zeroizing<Vec<u8>>> {
        Store::open(&self.dir).and_then(|store| store.read(key)).unwrap_or_else(log_unavailable)
    }

    /// Stores the entry.
    pub fn write(&self, key: &str, bytes: &[u8]) {
        Store::open(&self.dir).and_then(|store| store.write(key, bytes)).map(Some).unwrap_or_else(log_unavailable);
    }

    /// Stores the entry and removes all that are older than it by two days or more: keys are hashes of the request, so
    /// entries of a changed configuration are never overwritten. Ages are by the file system's clock.
    pub fn write_and_sweep(&self, key: &str, bytes: &[u8]) {
        self.write(key, bytes);
        let written = std::fs::metadata(self.dir.join(key)).and_then(|metadata| metadata.modified()).ok();
        let oldest = written.and_then(|at| Timestamp::try_from(at.checked_sub(MAX_AGE)?).ok());
        if let (Some(store), Some(oldest)) = (self.store(), oldest) {
            store.sweep(oldest).map(Some).unwrap_or_else(log_unavailable);
        }
    }

    /// Waits until no other process fetches this entry. Returns `None` if that takes longer than `timeout`, or if the
    /// directory is not usable.
    pub async fn lock(&self, key: &str, clock: &dyn Clock, timeout: Duration) -> Option<StoreLock> {
        self.store()?.lock_async(key, clock, timeout, |_| {}).await.map(Some).unwrap_or_else(log_unavailable)
    }
}

fn log_unavailable<T>(error: StoreError) -> Option<T> {
    tracing::debug!(%error, "token cache unavailable");
    None
}

/// Returns `credlet/NAME` in the user's [cache directory](credlet_platform::dirs), or `None` if the home directory is unknown.
pub fn cache_dir(env: &dyn Env, name: &str) -> Option<PathBuf> {
    Some(dirs::cache_dir(env)?.join("credlet").join(name))
}

/// Returns the SHA-256 hash of `parts` in hex, as a file name. Each part is hashed with its length, so that the
/// concatenation is unambiguous.
pub fn cache_key<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part.as_bytes());
    }
    credlet_api::hex(context.finish())
}
