use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Env, find_program};
use jiff::Timestamp;

use super::key::{self, CacheKey, KeyPart};
use super::protection::FileProtection;
use super::rejection::{self, CallerProcess};
use super::state::{CacheState, CacheStateError, EntrySecret};
use super::{CacheEntry, CacheOptions, CacheRequest, CacheWarning, allow, directory};
use crate::store::{KernelKeyring, Keyring, SealError, Sealer, Store};

/// Environment variable that selects the [`CacheMode`].
pub(super) const SWITCH: &str = "CREDLET_CACHE";

/// How the cache is used, by the environment variable `CREDLET_CACHE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// Unset or another value: entries are served and stored.
    On,
    /// `off`: the plugin is run without the cache.
    Off,
    /// `refresh`: the stored entry is replaced. For clients that know that the server rejected the credential.
    Refresh,
    /// `ahead`: this process was started by a hit to refresh the entry before it expires. No client reads its output.
    BackgroundRefresh,
}

impl CacheMode {
    /// The variable and value for a process that refreshes an entry in the background.
    pub const BACKGROUND_REFRESH: (&'static str, &'static str) = (SWITCH, "ahead");

    fn from_env(env: &dyn Env) -> Self {
        match env.var(SWITCH).and_then(|mode| mode.into_string().ok()).as_deref() {
            Some("off") => Self::Off,
            Some("refresh") => Self::Refresh,
            Some("ahead") => Self::BackgroundRefresh,
            _ => Self::On,
        }
    }
}

/// One run of `credlet cache` for one client.
#[derive(Debug)]
pub struct CacheInvocation {
    pub(super) options: CacheOptions,
    /// `None`: the request is invalid, and the plugin should report that.
    pub(super) request: Option<CacheRequest>,
    pub(super) program: PathBuf,
    pub(super) mode: CacheMode,
    pub(super) key: CacheKey,
    pub(super) dir: Option<PathBuf>,
    pub(super) caller: CallerProcess,
    /// Start of this call by [`rejection::boot_time_ns`].
    pub(super) arrived_at: u64,
    pub(super) keyring: Arc<dyn Keyring>,
    /// Creation time and digest of the entry that the server rejected.
    pub(super) rejected: Option<(Timestamp, String)>,
    /// The secret that the key was computed with. `Err(None)`: the call is not cached; `Err(Some(_))`: the state is unusable.
    pub(super) state: Result<(CacheState, EntrySecret), Option<CacheStateError>>,
    key_parts: Vec<KeyPart>,
}

impl CacheInvocation {
    /// Looks up the plugin and computes the key.
    ///
    /// # Errors
    /// If the plugin is not found or not allowed.
    pub fn new(options: CacheOptions, env: &dyn Env) -> Result<Self, CacheWarning> {
        Self::with_link(options, None, env)
    }

    /// As [`new`](Self::new) for a process that was started under the name `link`: `credlet-cache-aws` may run `aws` if the
    /// user allows that link.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_link(options: CacheOptions, link: Option<&OsStr>, env: &dyn Env) -> Result<Self, CacheWarning> {
        let arrived_at = rejection::boot_time_ns();
        let found = find_program(&options.command, env);
        allow::check(&options.command, link, &found, env).map_err(CacheWarning::NotAllowed)?;
        let program = found.map_err(CacheWarning::NotFound)?;
        let request = CacheRequest::from_env(env).ok();
        let key_parts = request.as_ref().map(|request| key::parts(&options, request, &program, env));
        let key_parts = key_parts.unwrap_or_default();
        let mode = CacheMode::from_env(env);
        let dir = directory(options.cache_dir.as_ref(), env);
        let is_cached = request.is_some() && !options.no_store && mode != CacheMode::Off;
        let state = match dir.as_deref().filter(|_| is_cached) {
            Some(dir) => CacheState::with_secret(env, dir).map_err(Some),
            None => Err(None),
        };
        let key = match &state {
            Ok((_, secret)) => CacheKey::compute(&key_parts, secret),
            Err(_) => CacheKey::compute(&key_parts, &EntrySecret::unkeyed()),
        };
        Ok(Self {
            mode,
            key,
            dir,
            caller: CallerProcess::parent(),
            arrived_at,
            keyring: Arc::new(KernelKeyring),
            rejected: None,
            state,
            options,
            request,
            program,
            key_parts,
        })
    }

    /// Replaces the kernel's keyring, which holds the key for `--encrypt`.
    #[must_use]
    pub fn with_keyring(self, keyring: Arc<dyn Keyring>) -> Self {
        Self { keyring, ..self }
    }

    /// Returns the key of the entry.
    pub fn key(&self) -> &CacheKey {
        &self.key
    }

    /// Returns the parts that the key was computed from. Empty if the request is invalid.
    pub fn key_parts(&self) -> &[KeyPart] {
        &self.key_parts
    }

    /// Returns the directory of the entry, if there is one.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Returns the mode that the environment selects.
    pub fn mode(&self) -> CacheMode {
        self.mode
    }

    /// Whether entries are neither read nor stored.
    pub(super) fn is_uncached(&self) -> bool {
        self.request.is_none() || self.options.no_store || self.mode == CacheMode::Off
    }

    /// Whether the caller wants a new credential in place of the stored one.
    pub(super) fn wants_refresh(&self) -> bool {
        self.options.force_refresh
            || self.mode == CacheMode::Refresh
            || self.request.as_ref().is_some_and(CacheRequest::was_rejected)
    }

    /// Returns how files of this call are stored. With `--encrypt` the first call creates the key.
    pub(super) fn protection(&self, store: &Store) -> Result<FileProtection, SealError> {
        match self.options.encrypt {
            true => Sealer::new(self.keyring.clone(), store).map(FileProtection::Sealed),
            false => Ok(FileProtection::Plain),
        }
    }

    /// Returns how files of this call were stored. `None`: the decryption key is missing.
    pub(super) fn existing_protection(&self) -> Option<FileProtection> {
        match self.options.encrypt {
            true => Sealer::existing(self.keyring.clone()).ok()?.map(FileProtection::Sealed),
            false => Some(FileProtection::Plain),
        }
    }

    /// Returns the entry, also an expired one. `None` if it is missing, damaged, stored in the other form, or could have been
    /// written by another user.
    pub(super) fn load_entry(&self, store: &Store) -> Option<CacheEntry> {
        let key = self.key.as_str();
        let bytes = store.read(key).ok()??;
        CacheEntry::decode(&self.existing_protection()?.decode(key, bytes)?, key)
    }
}
