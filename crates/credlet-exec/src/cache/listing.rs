use std::sync::Arc;
use std::time::Duration;

use crate::Env;
use jiff::Timestamp;

use super::protection::{FileProtection, is_sealed};
use super::state::CacheState;
use super::{CacheEntry, CacheKey, CacheStats};
use crate::store::{KernelKeyring, Sealer, Store, StoreError, entry_key, is_entry_key};

/// An entry without its credential, for `ls` and `stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Key of the entry.
    pub key: String,
    /// The plugin. Empty if the entry is encrypted and the decryption key is missing.
    pub command: String,
    /// The cluster's address; empty if it was not passed to the plugin.
    pub server: String,
    /// When the plugin was run. `None` if the entry is encrypted and the decryption key is missing.
    pub created: Option<Timestamp>,
    /// When the credential expires, if that is known.
    pub expires_at: Option<Timestamp>,
    /// For how long it is still served. Zero: it is not served.
    pub remaining: Duration,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// How often it was served.
    pub stats: CacheStats,
}

/// Returns all entries that can be read, the newest first.
///
/// # Errors
/// If the directory cannot be read.
pub fn list(store: &Store, env: &dyn Env, now: Timestamp) -> Result<Vec<ListedEntry>, StoreError> {
    let generation = CacheState::existing_secret(env, store.path()).map(|secret| secret.generation());
    let mut sealer = None;
    let mut listed = Vec::new();
    for key in store.names()?.into_iter().filter(|name| is_entry_key(name)) {
        let Ok(Some(bytes)) = store.read(&key) else { continue };
        let encrypted = is_sealed(&bytes);
        let protection = match encrypted {
            true => sealer.get_or_insert_with(existing_sealer).as_ref(),
            false => Some(&FileProtection::Plain),
        };
        let entry = protection.and_then(|protection| CacheEntry::decode(&protection.decode(&key, bytes)?, &key));
        let stats = CacheStats::load(store, &CacheKey::from_name(&key)).unwrap_or_default();
        let Some(entry) = entry else {
            if encrypted {
                let (command, server) = (String::new(), String::new());
                let remaining = Duration::ZERO;
                listed.push(ListedEntry {
                    key,
                    command,
                    server,
                    created: None,
                    expires_at: None,
                    remaining,
                    encrypted,
                    stats,
                });
            }
            continue;
        };
        let remaining = Duration::try_from(entry.lifetime.serve_until.duration_since(now)).unwrap_or_default();
        let is_served = entry.is_fresh(now) && generation.as_ref() == Some(&entry.generation);
        listed.push(ListedEntry {
            key,
            remaining: if is_served { remaining } else { Duration::ZERO },
            command: entry.command,
            server: entry.server,
            created: Some(entry.lifetime.created),
            expires_at: entry.expires_at,
            encrypted,
            stats,
        });
    }
    listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.key.cmp(&b.key)));
    Ok(listed)
}

fn existing_sealer() -> Option<FileProtection> {
    Sealer::existing(Arc::new(KernelKeyring)).ok()?.map(FileProtection::Sealed)
}

/// Removes all entries with keys that start with `prefix`, also damaged ones, with the files beside them. Returns the number of
/// removed entries. Other files in the directory are left alone.
///
/// # Errors
/// If an entry could not be removed.
pub fn remove(store: &Store, prefix: &str) -> Result<usize, StoreError> {
    let mut removed = 0;
    for name in store.names()?.into_iter().filter(|name| name.starts_with(prefix)) {
        // Locks stay: another process may hold one.
        let Some(key) = entry_key(&name).filter(|_| !name.ends_with(".lock")) else { continue };
        if store.remove(&name)? {
            removed += usize::from(name == key);
        }
    }
    Ok(removed)
}

/// Removes the entries of a plugin for a cluster, its entries without a cluster, and encrypted entries that cannot be decrypted.
///
/// # Errors
/// As for [`remove`].
pub fn remove_for_cluster(
    store: &Store,
    command: &str,
    server: &str,
    env: &dyn Env,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let matches = |entry: &ListedEntry| {
        let unknown = entry.created.is_none();
        unknown || entry.command == command && (entry.server == server || entry.server.is_empty())
    };
    let entries = list(store, env, now)?;
    entries.iter().filter(|entry| matches(entry)).try_fold(0, |sum, entry| Ok(sum + remove(store, &entry.key)?))
}
