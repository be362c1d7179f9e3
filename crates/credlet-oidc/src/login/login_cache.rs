//! Storage of one login: a file with a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::login_record::LoginRecord;
use super::options::TokenStorage;
use super::settings::OidcSettings;
use super::{OidcError, UserOutput, cache_key};
use credlet_exec::Clock;
use credlet_exec::store::{Sealer, Store, StoreError, StoreLock};

/// The file of one login. If nothing can be stored, reads return nothing and writes do nothing.
pub(super) struct LoginCache {
    store: Option<Store>,
    sealer: Option<Sealer>,
    name: String,
    /// Whether the user was warned that the login cannot be stored.
    warned: AtomicBool,
}

/// The right to log in or refresh with these settings, released on drop.
pub(super) struct LoginLock {
    /// Whether another process held the lock before.
    pub(super) waited: bool,
    _lock: Option<StoreLock>,
}

impl LoginCache {
    /// Opens the file. Failures are reported as warnings, because a token can be obtained without storing it.
    pub(super) fn open(settings: &OidcSettings, output: &dyn UserOutput) -> Self {
        let name = cache_key::name(settings);
        let disabled = |name| Self { store: None, sealer: None, name, warned: AtomicBool::default() };
        if settings.storage == TokenStorage::None {
            return disabled(name);
        }
        let Some(directory) = &settings.directory else {
            output.print_line("warning: the login is not stored: neither HOME nor --token-cache-dir is set");
            return disabled(name);
        };
        let store = match Store::open(directory) {
            Ok(store) => store,
            Err(problem) => {
                output.print_line(&format!("warning: the login is not stored: {}: {problem}", directory.display()));
                return disabled(name);
            }
        };
        let sealer = match settings.storage {
            TokenStorage::Keyring => match Sealer::new(Arc::clone(&settings.keyring), &store) {
                Ok(sealer) => Some(sealer),
                Err(problem) => {
                    if store.is_first(Store::NO_KEYRING) {
                        output.print_line(&format!("warning: the login is stored unencrypted: {problem}"));
                    }
                    None
                }
            },
            TokenStorage::Disk | TokenStorage::None => None,
        };
        Self { store: Some(store), sealer, name, warned: AtomicBool::default() }
    }

    /// Returns the stored login. `None` if it is missing, cannot be decrypted, or may have been written by another user.
    pub(super) fn read(&self) -> Option<LoginRecord> {
        let store = self.store.as_ref()?;
        match store.read(&self.name) {
            Ok(bytes) => decode(&bytes?, &self.name, self.sealer.as_ref()),
            Err(problem) => {
                tracing::warn!("ignored the stored login {}/{}: {problem}", store.path().display(), self.name);
                None
            }
        }
    }

    /// Stores the login. A failure, such as a full disk, is reported once as a warning.
    pub(super) fn write(&self, record: &LoginRecord, output: &dyn UserOutput) {
        let Some(store) = &self.store else { return };
        let text = record.encode();
        let written = match &self.sealer {
            None => store.write(&self.name, text.as_bytes()).map_err(|problem| problem.to_string()),
            Some(sealer) => sealer
                .seal(self.name.as_bytes(), text.as_bytes())
                .map_err(|problem| problem.to_string())
                .and_then(|sealed| store.write(&self.name, &sealed).map_err(|problem| problem.to_string())),
        };
        if let Err(problem) = written
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            output.print_line(&format!(
                "warning: failed to store the login, the next run must log in again: {}: {problem}",
                store.path().display()
            ));
        }
    }

    pub(super) fn remove(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.remove(&self.name).unwrap_or(false))
    }

    /// Waits for the lock of this login, at most for `limit`. If the lock cannot be created, returns without it.
    /// Fails if another process holds the lock for longer.
    pub(super) async fn lock(
        &self,
        limit: Duration,
        clock: &dyn Clock,
        output: &dyn UserOutput,
    ) -> Result<LoginLock, OidcError> {
        let Some(store) = &self.store else { return Ok(LoginLock { waited: false, _lock: None }) };
        match store.try_lock(&self.name) {
            Ok(Some(lock)) => return Ok(LoginLock { waited: false, _lock: Some(lock) }),
            Ok(None) => {}
            Err(problem) => {
                tracing::warn!("failed to lock the login in {}: {problem}", store.path().display());
                return Ok(LoginLock { waited: false, _lock: None });
            }
        }
        let pid = |holder: Option<u32>| holder.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let waiting = |holder| output.print_line(&format!("Waiting for the login of another process{} …", pid(holder)));
        match store.lock_async(&self.name, clock, limit, waiting).await {
            Ok(lock) => Ok(LoginLock { waited: true, _lock: Some(lock) }),
            Err(StoreError::Locked { holder }) => Err(OidcError::LockTimedOut(format!(
                "timed out after {} s waiting for the login of another process{}",
                limit.as_secs(),
                pid(holder)
            ))),
            Err(_) => Ok(LoginLock { waited: true, _lock: None }),
        }
    }
}

/// Decodes a stored login. A record is a JSON object; anything else is encrypted.
pub(super) fn decode(bytes: &[u8], name: &str, sealer: Option<&Sealer>) -> Option<LoginRecord> {
    match (bytes.first()?, sealer) {
        (b'{', None) => LoginRecord::decode(bytes),
        (_, Some(sealer)) => LoginRecord::decode(&sealer.open(name.as_bytes(), bytes).ok()?),
        _ => None,
    }
}
