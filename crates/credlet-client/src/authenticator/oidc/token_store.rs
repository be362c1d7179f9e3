//! Tokens in the kubeconfig file. New tokens are saved there, because a used refresh token is useless and its owner would have
//! to log in again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::kubeconfig::{AuthProviderConfig, KubeconfigFile};
use credlet_exec::Clock;
use credlet_platform::fs::{open_regular, read_bounded};
use zeroize::Zeroizing;

use super::settings::{ID_TOKEN, OidcTokens, REFRESH_TOKEN};
use credlet_kubeconfig::edit::{KubeconfigLock, set_auth_provider_value};
use credlet_kubeconfig::{ReadError, ValueOrigin};

/// Largest kubeconfig that is read, in bytes.
const MAX_FILE_SIZE: u64 = 1 << 30;

/// Timeout for kubectl's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Polling interval for the refresh lock.
const REFRESH_LOCK_INTERVAL: Duration = Duration::from_millis(25);

/// A kubeconfig file and a user in it.
pub(super) struct KubeconfigTokenStore {
    pub(super) path: Arc<Path>,
    pub(super) user: String,
    /// Settings of the user. If those in the file differ, its tokens belong to another login.
    pub(super) settings: BTreeMap<String, Secret>,
}

/// Result of saving tokens, with the tokens in the file afterwards.
pub(super) enum SaveOutcome {
    /// The tokens were saved, as far as the file has entries for them.
    Saved(OidcTokens),
    /// Another process has saved valid tokens meanwhile; they are kept.
    Superseded(OidcTokens),
}

/// Failed saving of tokens. The texts continue "the file …".
#[derive(Debug, thiserror::Error)]
pub(super) enum SaveError {
    #[error("is not an ordinary file")]
    NotAFile,
    #[error("is read-only")]
    ReadOnly,
    #[error("is already locked: if no other program is writing it, remove the lock file with the suffix .lock")]
    AlreadyLocked,
    #[error("cannot be locked: {0}")]
    LockFailed(io::ErrorKind),
    #[error(transparent)]
    Unreadable(ReadError),
    #[error("is not UTF-8 text")]
    NotUtf8,
    #[error("no longer has this user, or has it with other settings")]
    Changed,
    #[error("cannot be edited: `{key}` is not a plain or quoted scalar on one line")]
    UnsupportedStyle { key: &'static str, line: usize },
    #[error("cannot be written: {0}")]
    WriteFailed(io::ErrorKind),
}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> Self {
        Self::WriteFailed(error.kind())
    }
}

impl KubeconfigTokenStore {
    /// Returns the file, and the line if the problem has one, for a message.
    pub(super) fn location(&self, problem: Option<&SaveError>) -> String {
        match problem {
            Some(SaveError::UnsupportedStyle { line, .. }) => {
                ValueOrigin::File { path: Arc::clone(&self.path), line: *line }.to_string()
            }
            _ => credlet_api::escape_line(&self.path.to_string_lossy()),
        }
    }

    /// Returns the tokens in the file, or `None` if they cannot be read or belong to another login.
    pub(super) fn read_tokens(&self) -> Option<OidcTokens> {
        // Regular files only: a pipe was consumed when the kubeconfig was loaded.
        let bytes = read_bounded(&self.path, MAX_FILE_SIZE).ok()?;
        let config = KubeconfigFile::decode(&bytes).ok()?;
        self.find_provider(&config).map(|provider| OidcTokens::from_config(&provider.config))
    }

    /// Acquires an advisory lock on the file, so that only one process refreshes its tokens. Waits for at most `limit`. The lock is
    /// released when the file is dropped or the process exits.
    ///
    /// It is separate from kubectl's lock file, which must be held only briefly because kubectl does not wait for it. Returns
    /// `None`, and the refresh proceeds without a lock, if the file system has no such locks.
    pub(super) async fn refresh_lock(&self, clock: &dyn Clock, limit: Duration) -> Option<File> {
        let file = open_regular(&self.path).ok()?;
        let deadline = clock.monotonic() + limit;
        loop {
            match file.try_lock() {
                Ok(()) => return Some(file),
                Err(fs::TryLockError::WouldBlock) if clock.monotonic() < deadline => {
                    clock.sleep(REFRESH_LOCK_INTERVAL).await
                }
                Err(_) => return None,
            }
        }
    }

    /// Replaces the tokens `old` in the file by `new`, atomically. `is_valid` tells whether an ID token of another process is valid.
    pub(super) fn save(
        &self,
        old: &OidcTokens,
        new: &OidcTokens,
        is_valid: impl FnOnce(&Secret) -> bool,
    ) -> Result<SaveOutcome, SaveError> {
        let path = fs::canonicalize(&self.path)?;
        let metadata = fs::metadata(&path)?;
        if !metadata.is_file() {
            return Err(SaveError::NotAFile);
        }
        // A rename would succeed, but a read-only file is meant to stay unchanged.
        if metadata.permissions().readonly() {
            return Err(SaveError::ReadOnly);
        }
        File::options().write(true).open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => SaveError::ReadOnly,
            other => SaveError::WriteFailed(other),
        })?;
        let lock = KubeconfigLock::acquire(&self.path, LOCK_TIMEOUT).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => SaveError::AlreadyLocked,
            other => SaveError::LockFailed(other),
        })?;

        let bytes = read_bounded(&path, MAX_FILE_SIZE).map_err(SaveError::Unreadable)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| SaveError::NotUtf8)?;
        let config = KubeconfigFile::decode(&bytes).map_err(|_| SaveError::Changed)?;
        let provider = self.find_provider(&config).ok_or(SaveError::Changed)?;
        let current = OidcTokens::from_config(&provider.config);
        if current != *old && current != *new && is_valid(&current.id) {
            return Ok(SaveOutcome::Superseded(current));
        }
        let mut saved = current.clone();
        let mut edited = None;
        if new.refresh != current.refresh {
            edited = Some(self.replace_token(text, provider, REFRESH_TOKEN, &new.refresh)?);
            saved.refresh = new.refresh.clone();
        }
        if new.id != current.id && provider.config.contains_key(ID_TOKEN) {
            let text = edited.as_deref().map_or(text, String::as_str);
            match self.replace_token(text, provider, ID_TOKEN, &new.id) {
                Ok(both) => {
                    edited = Some(both);
                    saved.id = new.id.clone();
                }
                // Losing the refresh token would be worse, so it is saved alone.
                Err(problem) if edited.is_some() => {
                    tracing::warn!("{}: the file {problem}", self.location(Some(&problem)));
                }
                Err(problem) => return Err(problem),
            }
        }
        if let Some(edited) = edited {
            lock.replace(edited.as_bytes()).map_err(|error| SaveError::WriteFailed(error.kind()))?;
        }
        Ok(SaveOutcome::Saved(saved))
    }

    fn replace_token(
        &self,
        text: &str,
        provider: &AuthProviderConfig,
        key: &'static str,
        value: &Secret,
    ) -> Result<Zeroizing<String>, SaveError> {
        set_auth_provider_value(text, &self.user, key, value).ok_or_else(|| SaveError::UnsupportedStyle {
            key,
            line: provider.config_lines.get(key).copied().unwrap_or_default(),
        })
    }

    /// Returns the `auth-provider` of the user if its settings are unchanged.
    fn find_provider<'a>(&self, config: &'a KubeconfigFile) -> Option<&'a AuthProviderConfig> {
        let user = config.users.iter().find(|entry| entry.name == self.user)?;
        let provider = &user.item.auth_provider.as_ref()?.value;
        let without_tokens = |config: &BTreeMap<String, Secret>| {
            let mut settings = config.clone();
            settings.retain(|name, _| name != ID_TOKEN && name != REFRESH_TOKEN);
            settings
        };
        let same = provider.name.value == "oidc" && without_tokens(&provider.config) == without_tokens(&self.settings);
        same.then_some(provider)
    }
}
