//! The kubeconfig that the tokens live in. New ones go back there: a refresh token that is used up and not replaced
//! would lock its owner out.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::kubeconfig::{AuthProviderConfig, Config};
use credlet_core::Clock;
use zeroize::Zeroizing;

use super::edit;
use super::login::{ID_TOKEN, REFRESH_TOKEN, Tokens};
use crate::kubeconfig::{FileProblem, Origin, read};

/// No kubeconfig that could be loaded is larger than this.
const LARGEST: u64 = 1 << 30;

/// For how long to wait for kubectl, which writes at once: 40 times 50 ms.
const LOCK_TRIES: usize = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// How often to look whether it is our turn.
const TURN_PAUSE: Duration = Duration::from_millis(25);

/// A file, and the user in it.
pub(super) struct Home {
    pub(super) path: Arc<Path>,
    pub(super) user: String,
    /// The user's settings; in a file where they are others, the tokens are others' too.
    pub(super) settings: BTreeMap<String, Secret>,
}

/// What became of new tokens. Both know what is in the file now.
pub(super) enum Saved {
    /// They are in the file, as far as it has room for them.
    Ours(Tokens),
    /// Somebody else has put good ones there meanwhile, and they stay.
    Theirs(Tokens),
}

/// Why new tokens are not in the file. The texts go on where "the file …" begins.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsaved {
    #[error("is not an ordinary file")]
    NotAFile,
    #[error("is read-only")]
    ReadOnly,
    #[error("is locked: if no other program is writing it, remove the file of the same name with .lock at its end")]
    Locked,
    #[error("cannot be locked: {0}")]
    NoLock(io::ErrorKind),
    #[error(transparent)]
    Unreadable(FileProblem),
    #[error("is not UTF-8 text")]
    NotUtf8,
    #[error("no longer has this user, or has it with other settings")]
    Changed,
    #[error("has a `{key}` that is not written as one plain or quoted word on one line, and stays as it is")]
    Form { key: &'static str, line: usize },
    #[error("cannot be written: {0}")]
    Failed(io::ErrorKind),
}

impl From<io::Error> for Unsaved {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.kind())
    }
}

impl Home {
    /// Where a problem is.
    pub(super) fn place(&self, problem: Option<&Unsaved>) -> String {
        match problem {
            Some(Unsaved::Form { line, .. }) => Origin::File { path: Arc::clone(&self.path), line: *line }.to_string(),
            _ => credlet_api::visible(&self.path.to_string_lossy()).replace(|c: char| c.is_control(), " "),
        }
    }

    /// The tokens that are in the file now. `None`: they cannot be read, or are another login's.
    pub(super) fn tokens(&self) -> Option<Tokens> {
        // A pipe has been read to its end already.
        fs::metadata(&self.path).ok().filter(fs::Metadata::is_file)?;
        let bytes = read::file(&self.path, LARGEST).ok()?;
        let mut config = Config::decode(&bytes).ok()?;
        self.own(&mut config).map(|provider| Tokens::of(&provider.config))
    }

    /// Waits until no other process of ours renews these tokens, at most for `limit`. The turn ends when the file is
    /// dropped, or its process dies.
    ///
    /// This is a lock that kubectl knows nothing of: its own may be held only for a moment, because kubectl does not
    /// wait for it. Where there are no such locks, all go on at once.
    pub(super) async fn turn(&self, clock: &dyn Clock, limit: Duration) -> Option<File> {
        if !cfg!(unix) || !fs::metadata(&self.path).ok()?.is_file() {
            return None;
        }
        let file = File::open(&self.path).ok()?;
        let until = clock.monotonic() + limit;
        loop {
            match file.try_lock() {
                Ok(()) => return Some(file),
                Err(fs::TryLockError::WouldBlock) if clock.monotonic() < until => clock.sleep(TURN_PAUSE).await,
                Err(_) => return None,
            }
        }
    }

    /// Puts new tokens in the place of `old`, and nothing else. The file is always whole: the old one or the new one.
    pub(super) fn save(
        &self,
        old: &Tokens,
        new: &Tokens,
        is_good: impl FnOnce(&Secret) -> bool,
    ) -> Result<Saved, Unsaved> {
        let path = fs::canonicalize(&self.path)?;
        let about = fs::metadata(&path)?;
        if !about.is_file() {
            return Err(Unsaved::NotAFile);
        }
        // A rename needs no right to the file, but whoever took the right away meant something by it.
        if about.permissions().readonly() {
            return Err(Unsaved::ReadOnly);
        }
        File::options().write(true).open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Unsaved::ReadOnly,
            other => Unsaved::Failed(other),
        })?;
        let _lock = Lock::take(&self.path)?;

        let bytes = read::file(&path, LARGEST).map_err(Unsaved::Unreadable)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Unsaved::NotUtf8)?;
        let mut config = Config::decode(&bytes).map_err(|_| Unsaved::Changed)?;
        let provider = self.own(&mut config).ok_or(Unsaved::Changed)?;
        let there = Tokens::of(&provider.config);
        if there != *old && there != *new && is_good(&there.id) {
            return Ok(Saved::Theirs(there));
        }
        let mut now = there.clone();
        let mut edited = None;
        if new.refresh != there.refresh {
            edited = Some(self.replaced(text, provider, REFRESH_TOKEN, &new.refresh)?);
            now.refresh = new.refresh.clone();
        }
        if new.id != there.id && provider.config.contains_key(ID_TOKEN) {
            let before = edited.as_deref().map_or(text, String::as_str);
            match self.replaced(before, provider, ID_TOKEN, &new.id) {
                Ok(both) => {
                    edited = Some(both);
                    now.id = new.id.clone();
                }
                // The one that must not be lost is more important.
                Err(problem) if edited.is_some() => {
                    tracing::warn!("{}: the file {problem}", self.place(Some(&problem)));
                }
                Err(problem) => return Err(problem),
            }
        }
        if let Some(edited) = edited {
            write(&path, &about, edited.as_bytes())?;
        }
        Ok(Saved::Ours(now))
    }

    fn replaced(
        &self,
        text: &str,
        provider: &AuthProviderConfig,
        key: &'static str,
        value: &Secret,
    ) -> Result<Zeroizing<String>, Unsaved> {
        let line = provider.config_lines.get(key).copied().unwrap_or_default();
        edit::replace(text, &self.user, key, line, value).ok_or(Unsaved::Form { key, line })
    }

    /// The user's `auth-provider`, if it still is the one we know.
    fn own<'a>(&self, config: &'a mut Config) -> Option<&'a AuthProviderConfig> {
        let provider = edit::provider(config, &self.user)?;
        let lasting = |config: &BTreeMap<String, Secret>| {
            let mut lasting = config.clone();
            lasting.retain(|name, _| name != ID_TOKEN && name != REFRESH_TOKEN);
            lasting
        };
        let same = provider.name.value == "oidc" && lasting(&provider.config) == lasting(&self.settings);
        same.then_some(&*provider)
    }
}

/// kubectl's lock: a file beside the kubeconfig that must not exist yet. Dropping it removes the file.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Self, Unsaved> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        for _ in 0..LOCK_TRIES {
            match File::options().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => std::thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(Unsaved::NoLock(error.kind())),
            }
        }
        Err(Unsaved::Locked)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(problem = %error.kind(), "the lock of a kubeconfig cannot be removed");
        }
    }
}

/// A new file in the place of the old one, for the same people.
fn write(path: &Path, about: &fs::Metadata, bytes: &[u8]) -> Result<(), Unsaved> {
    let directory = path.parent().ok_or(Unsaved::NotAFile)?;
    let mut name = path.file_name().ok_or(Unsaved::NotAFile)?.to_owned();
    // Under the lock nobody else makes one of this name; what is there was left by one who died.
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = directory.join(name);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let written = fill(&temporary, about, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // It holds tokens. If it cannot be removed either, there is nobody left to tell.
        let _ = fs::remove_file(&temporary);
        return Err(error.into());
    }
    // Else a crash may bring the old one back. Not every system can do it.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

fn fill(path: &Path, about: &fs::Metadata, bytes: &[u8]) -> io::Result<()> {
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
        // Under sudo the file stays its owner's.
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (about.uid(), about.gid()) {
            fchown(&file, Some(about.uid()), Some(about.gid()))?;
        }
    }
    file.set_permissions(about.permissions())?;
    file.sync_all()
}
