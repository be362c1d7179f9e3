//! The place where a login is kept: a file of its own, with a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::options::Storage;
use super::record::Record;
use super::settings::Settings;
use super::{Error, Talk, key};
use crate::store::{Lock, Sealer, Store, StoreError};

/// One login's file. Where nothing can be kept, it is empty and takes nothing.
pub(super) struct Keep {
    store: Option<Arc<Store>>,
    sealer: Option<Sealer>,
    name: String,
    /// Whether the person knows that nothing can be written.
    told: AtomicBool,
}

/// Our turn to log in or renew.
pub(super) struct Turn {
    /// Whether somebody else was at it before.
    pub(super) waited: bool,
    _lock: Option<Lock>,
}

impl Keep {
    /// Never fails: without a place for it, a token can still be had.
    pub(super) fn open(settings: &Settings, talk: &dyn Talk) -> Self {
        let name = key::name(settings);
        let nowhere = |name| Self { store: None, sealer: None, name, told: AtomicBool::default() };
        if settings.storage == Storage::None {
            return nowhere(name);
        }
        let Some(directory) = &settings.directory else {
            talk.say("warning: neither HOME nor --token-cache-dir is set, so the login is not kept");
            return nowhere(name);
        };
        let store = match Store::open(directory) {
            Ok(store) => Arc::new(store),
            Err(problem) => {
                talk.say(&format!("warning: the login is not kept: {}: {problem}", directory.display()));
                return nowhere(name);
            }
        };
        let sealer = match settings.storage {
            Storage::Keyring => match Sealer::new(Arc::clone(&settings.keyring), &store) {
                Ok(sealer) => Some(sealer),
                Err(problem) => {
                    if store.is_first(Sealer::MISSING) {
                        talk.say(&format!("warning: the login is kept unencrypted: {problem}"));
                    }
                    None
                }
            },
            Storage::Disk | Storage::None => None,
        };
        Self { store: Some(store), sealer, name, told: AtomicBool::default() }
    }

    /// What is kept. What cannot be read, or may have been written by others, is not there.
    pub(super) fn read(&self) -> Option<Record> {
        let store = self.store.as_ref()?;
        match store.read(&self.name) {
            Ok(bytes) => decode(&bytes?, &self.name, self.sealer.as_ref()),
            Err(problem) => {
                tracing::warn!("{}/{}: {problem}; it is not used", store.path().display(), self.name);
                None
            }
        }
    }

    /// Keeps it. A full disk is no reason to go without a token, so the person is told and the work goes on.
    pub(super) fn write(&self, record: &Record, talk: &dyn Talk) {
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
            && !self.told.swap(true, Ordering::Relaxed)
        {
            talk.say(&format!(
                "warning: the login cannot be kept, so the next run must log in again: {}: {problem}",
                store.path().display()
            ));
        }
    }

    pub(super) fn remove(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.remove(&self.name).unwrap_or(false))
    }

    /// Waits until nobody else logs in with these settings, at most for `limit`. Where there can be no lock, all go on
    /// at once.
    pub(super) async fn turn(&self, limit: Duration, talk: Arc<dyn Talk>) -> Result<Turn, Error> {
        let free = Turn { waited: false, _lock: None };
        let Some(store) = self.store.clone() else { return Ok(free) };
        match store.try_lock(&self.name) {
            Ok(Some(lock)) => return Ok(Turn { waited: false, _lock: Some(lock) }),
            Ok(None) => {}
            Err(problem) => {
                tracing::warn!("{}: no lock for the login: {problem}", store.path().display());
                return Ok(free);
            }
        }
        let name = self.name.clone();
        let waiting = move |holder: Option<u32>| {
            let holder = holder.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            talk.say(&format!("Waiting for another run that is logging in{holder} …"));
        };
        let locked = tokio::task::spawn_blocking(move || store.lock(&name, limit, waiting)).await;
        match locked {
            Ok(Ok(lock)) => Ok(Turn { waited: true, _lock: Some(lock) }),
            Ok(Err(StoreError::Locked { holder })) => {
                let holder = holder.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                Err(Error::Busy(format!("another run{holder} has been logging in for {} s", limit.as_secs())))
            }
            Ok(Err(_)) | Err(_) => Ok(Turn { waited: true, _lock: None }),
        }
    }
}

/// A record is JSON; a sealed one is anything else.
pub(super) fn decode(bytes: &[u8], name: &str, sealer: Option<&Sealer>) -> Option<Record> {
    match (bytes.first()?, sealer) {
        (b'{', None) => Record::decode(bytes),
        (_, Some(sealer)) => Record::decode(&sealer.open(name.as_bytes(), bytes).ok()?),
        _ => None,
    }
}
