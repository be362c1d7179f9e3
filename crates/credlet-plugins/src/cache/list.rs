use std::time::Duration;

use jiff::Timestamp;

use super::{Entry, Key, Tally};
use crate::store::{Store, StoreError};

/// An entry, as people may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub key: String,
    /// The plugin.
    pub command: String,
    /// The cluster's address; empty if the plugin was not told.
    pub server: String,
    /// When the plugin was asked.
    pub created: Timestamp,
    /// When the credential ends, if it says so.
    pub end: Option<Timestamp>,
    /// For how long it is still served; zero if it is not.
    pub left: Duration,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// What it was good for.
    pub tally: Tally,
}

/// All entries that can be read, the newest first.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(store: &Store, now: Timestamp) -> Result<Vec<Listed>, StoreError> {
    let mut listed = Vec::new();
    for key in store.names()?.into_iter().filter(|name| is_key(name)) {
        let Ok(Some(bytes)) = store.read(&key) else { continue };
        let Some(entry) = Entry::decode(&bytes, &key) else { continue };
        let left = Duration::try_from(entry.life.until.duration_since(now)).unwrap_or_default();
        let tally = Tally::load(store, &Key::named(&key)).unwrap_or_default();
        listed.push(Listed {
            key,
            left: if entry.is_fresh(now) { left } else { Duration::ZERO },
            command: entry.command,
            server: entry.server,
            created: entry.life.created,
            end: entry.end,
            encrypted: entry.sealed,
            tally,
        });
    }
    listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.key.cmp(&b.key)));
    Ok(listed)
}

/// Removes all entries whose names begin so, broken ones too, with what is known of their callers and failures. How
/// many there were.
///
/// # Errors
/// At the first that is still there.
pub fn remove(store: &Store, begins: &str) -> Result<usize, StoreError> {
    let mut removed = 0;
    for name in store.names()?.into_iter().filter(|name| name.starts_with(begins)) {
        let key = name.split('.').next().unwrap_or_default();
        // Locks stay: somebody may hold one.
        if is_key(key) && !name.ends_with(".lock") && store.remove(&name)? {
            removed += usize::from(name == key);
        }
    }
    Ok(removed)
}

/// Removes the entries of a plugin for a cluster, and those for which it was not told the cluster.
///
/// # Errors
/// As for [`remove`].
pub fn remove_of(store: &Store, command: &str, server: &str, now: Timestamp) -> Result<usize, StoreError> {
    let ours = |entry: &Listed| entry.command == command && (entry.server == server || entry.server.is_empty());
    let entries = list(store, now)?;
    entries.iter().filter(|entry| ours(entry)).try_fold(0, |sum, entry| Ok(sum + remove(store, &entry.key)?))
}

fn is_key(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
