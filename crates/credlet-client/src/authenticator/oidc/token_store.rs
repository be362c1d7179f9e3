//! Tokens in the kubeconfig file. New tokens are saved there, because a used refresh token is useless and its owner would have
//! to log in again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::kubeconfig::{AuthProviderConfig, KubeconfigFile};
use credlet_exec::Clock;
use credlet_platform::fs::{open_regular, read_bounded};
use zeroize::Zeroizing;

use super::edit;
use super::settings::{ID_TOKEN, OidcTokens, REFRESH_TOKEN};
use credlet_kubeconfig::{ReadError, ValueOrigin};

/// Largest kubeconfig that is read, in bytes.
const MAX_FILE_SIZE: u64 = 1 << 30;

/// Attempts and interval for kubectl's lock: 2 s in total.
const LOCK_ATTEMPTS: usize = 40;
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

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
        let mut config = KubeconfigFile::decode(&bytes).ok()?;
        self.find_provider(&mut config).map(|provider| OidcTokens::from_config(&provider.config))
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
        let _lock = KubeconfigLock::acquire(&self.path)?;

        let bytes = read_bounded(&path, MAX_FILE_SIZE).map_err(SaveError::Unreadable)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| SaveError::NotUtf8)?;
        let mut config = KubeconfigFile::decode(&bytes).map_err(|_| SaveError::Changed)?;
        let provider = self.find_provider(&mut config).ok_or(SaveError::Changed)?;
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
            write(&path, &metadata, edited.as_bytes())?;
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
        let line = provider.config_lines.get(key).copied().unwrap_or_default();
        edit::replace(text, &self.user, key, line, value).ok_or(SaveError::UnsupportedStyle { key, line })
    }

    /// Returns the `auth-provider` of the user if its settings are unchanged.
    fn find_provider<'a>(&self, config: &'a mut KubeconfigFile) -> Option<&'a AuthProviderConfig> {
        let provider = edit::provider(config, &self.user)?;
        let without_tokens = |config: &BTreeMap<String, Secret>| {
            let mut settings = config.clone();
            settings.retain(|name, _| name != ID_TOKEN && name != REFRESH_TOKEN);
            settings
        };
        let same = provider.name.value == "oidc" && without_tokens(&provider.config) == without_tokens(&self.settings);
        same.then_some(&*provider)
    }
}

/// kubectl's lock: a file beside the kubeconfig, created exclusively (client-go `clientcmd.lockFile`). Removed on drop.
struct KubeconfigLock(PathBuf);

impl KubeconfigLock {
    fn acquire(path: &Path) -> Result<Self, SaveError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        for _ in 0..LOCK_ATTEMPTS {
            match File::options().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::thread::sleep(LOCK_INTERVAL),
                Err(error) => return Err(SaveError::LockFailed(error.kind())),
            }
        }
        Err(SaveError::AlreadyLocked)
    }
}

impl Drop for KubeconfigLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(problem = %error.kind(), "failed to remove the lock file of a kubeconfig");
        }
    }
}

/// Replaces the file atomically, with the same owner and mode.
fn write(path: &Path, metadata: &fs::Metadata, bytes: &[u8]) -> Result<(), SaveError> {
    let dir = path.parent().ok_or(SaveError::NotAFile)?;
    let mut name = path.file_name().ok_or(SaveError::NotAFile)?.to_owned();
    // Unique under the lock, so an existing file is a leftover of a killed process.
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = dir.join(name);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let written = write_temporary(&temporary, metadata, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // It holds tokens. The original error is reported, so a failed removal is ignored.
        let _ = fs::remove_file(&temporary);
        return Err(error.into());
    }
    // Makes the rename durable. Not supported by every file system, so errors are ignored.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    Ok(())
}

fn write_temporary(path: &Path, metadata: &fs::Metadata, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    #[cfg(unix)]
    {
        // Keeps the owner if credlet runs under sudo.
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (metadata.uid(), metadata.gid()) {
            fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
        }
    }
    file.set_permissions(metadata.permissions())?;
    file.sync_all()
}
