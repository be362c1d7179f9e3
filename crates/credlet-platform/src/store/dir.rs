use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::fs::{self as platform_fs, UnsafeDir};
use jiff::Timestamp;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::StoreError;

/// Size limit of a file. A certificate chain with its key has some ten thousand bytes.
const MAX_FILE_SIZE: u64 = 4 << 20;

/// Suffixes of the files of an entry, after its 64 hexadecimal digits.
const SUFFIXES: [&str; 5] = ["", ".lock", ".calls", ".failed", ".inputs"];

/// A directory of small secret files, accessible only to the effective user.
///
/// The path may come from a kubeconfig. Therefore owner and mode of a directory are never changed, and only files with names
/// that credlet assigns are removed.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    dir: OwnedFd,
}

impl Store {
    /// Name for [`is_first`](Self::is_first) that records the warning about a missing keyring.
    pub const NO_KEYRING: &str = "no-keyring";

    /// Opens the directory at `path`. It and the missing directories above it are created with mode 0700.
    ///
    /// # Errors
    /// Fails if it belongs to another user, is accessible to others or is a link, if it cannot be created, or if it would be
    /// created below another user's directory.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        match Self::open_existing(path)? {
            Some(store) => Ok(store),
            None => {
                let path = std::path::absolute(path)?;
                Ok(Self { dir: platform_fs::create_private_dir(&path)?, path })
            }
        }
    }

    /// Opens the directory at `path` without creating it. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open).
    pub fn open_existing(path: &Path) -> Result<Option<Self>, StoreError> {
        // Root may run with another user's HOME, in which links may point to directories of root. For other users it suffices
        // to own the directory.
        if rustix::process::geteuid().is_root() {
            platform_fs::check_owners(&std::path::absolute(path)?)?;
        }
        Self::open_for_lookup(path)
    }

    /// Like [`open_existing`](Self::open_existing), without checking the parent directories. For look-ups by a name that
    /// other users cannot guess.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open).
    pub fn open_for_lookup(path: &Path) -> Result<Option<Self>, StoreError> {
        let path = std::path::absolute(path)?;
        match platform_fs::open_private_dir(&path) {
            Ok(dir) => Ok(Some(Self { path, dir })),
            Err(UnsafeDir::Io(io::ErrorKind::NotFound)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content of the file `name`, or `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if it is a link, belongs to another user or is accessible to others.
    pub fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        let (mut file, size) = match self.open_file(name, OFlags::RDONLY) {
            Err(error) if error.is_missing() => return Ok(None),
            opened => opened?,
        };
        // Allocated at once: a growing vector leaves copies of the secret in freed memory. One byte more, to detect the end.
        let mut bytes = Zeroizing::new(vec![0; size + 1]);
        let mut length = 0;
        while length < bytes.len() {
            match file.read(&mut bytes[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            // Files are replaced, never extended.
            if length == size {
                break;
            }
        }
        bytes.truncate(length);
        Ok(Some(bytes))
    }

    /// Replaces the file `name` atomically, also with respect to a crash.
    ///
    /// # Errors
    /// Fails if the file cannot be written. The old file then stays.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let temporary = format!(".{}.{}", check_name(name)?, std::process::id());
        let written = self.write_temporary(&temporary, bytes).and_then(|()| {
            rustix::fs::renameat(&self.dir, &temporary, &self.dir, name)?;
            Ok(())
        });
        if written.is_err() {
            // If this fails too, an incomplete file remains, which is never read and which `sweep` removes.
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
        }
        written
    }

    fn write_temporary(&self, temporary: &str, bytes: &[u8]) -> Result<(), StoreError> {
        // Left behind by an earlier process with the same id.
        match rustix::fs::unlinkat(&self.dir, temporary, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.dir, temporary, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(())
    }

    /// Removes the file `name`. Returns whether it existed.
    ///
    /// # Errors
    /// Fails if it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool, StoreError> {
        match rustix::fs::unlinkat(&self.dir, check_name(name)?, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the names of all files, sorted, without temporary ones.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            if check_name(name).is_ok() {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Removes the files of entries that were last written before `oldest`, and no files with other names.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn sweep(&self, oldest: Timestamp) -> Result<(), StoreError> {
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let entry = entry?;
            let Ok(found) = rustix::fs::statat(&self.dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
            let is_own = entry.file_name().to_str().is_ok_and(is_own_name);
            if is_own && is_file && found.st_mtime < oldest.as_second() {
                // Best effort.
                let _ = rustix::fs::unlinkat(&self.dir, entry.file_name(), AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Whether this is the first call with `name` since the store was emptied or [swept](Self::sweep): for warnings that must
    /// not be repeated with every run. Returns `true` if that cannot be stored.
    pub fn is_first(&self, name: &str) -> bool {
        let Ok(name) = check_name(name) else { return true };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        !matches!(rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR), Err(Errno::EXIST))
    }

    /// Opens a file that is modified in place, and creates it if it is missing. Its content must not be needed after a crash.
    ///
    /// # Errors
    /// Fails like [`read`](Self::read) and [`write`](Self::write).
    pub fn scratch(&self, name: &str) -> Result<File, StoreError> {
        Ok(self.open_file(name, OFlags::RDWR | OFlags::CREATE)?.0)
    }

    /// Returns the file and its size.
    fn open_file(&self, name: &str, flags: OFlags) -> Result<(File, usize), StoreError> {
        // `O_NONBLOCK`: opening a pipe must not block.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.dir, check_name(name)?, flags, Mode::RUSR | Mode::WUSR)?;
        let found = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(StoreError::NotRegular);
        }
        check_owner(&found)?;
        match permissions(&found) {
            mode if mode & 0o077 != 0 => return Err(StoreError::NotPrivate { mode }),
            _ => {}
        }
        match usize::try_from(found.st_size) {
            Ok(size) if size as u64 <= MAX_FILE_SIZE => Ok((File::from(file), size)),
            _ => Err(StoreError::TooLarge { limit: MAX_FILE_SIZE }),
        }
    }
}

/// Replaces a file of another program atomically, with the same owner and mode.
///
/// # Errors
/// Fails if the file cannot be written, or if its temporary file exists. The old file then stays.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    replace(path, bytes, false)
}

/// Like [`replace_file`], for a caller that holds a lock for the file. A temporary file that exists is a leftover of a killed
/// process and is removed.
///
/// # Errors
/// Fails if the file cannot be written. The old file then stays.
pub fn replace_locked_file(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    replace(path, bytes, true)
}

fn replace(path: &Path, bytes: &[u8], is_locked: bool) -> Result<(), StoreError> {
    // Follows links, so that they stay.
    let path = fs::canonicalize(path)?;
    let about = fs::metadata(&path)?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(StoreError::InvalidName);
    };
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}", std::process::id()));
    let temporary = parent.join(temporary);
    if is_locked {
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let written = write_like(&temporary, &about, bytes).and_then(|()| Ok(fs::rename(&temporary, &path)?));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // Makes the rename durable. Not supported by every file system, so errors are ignored.
    let _ = File::open(parent).and_then(|dir| dir.sync_all());
    written
}

fn write_like(temporary: &Path, about: &fs::Metadata, bytes: &[u8]) -> Result<(), StoreError> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let mut file = platform_fs::create_private_file(temporary)?;
    file.write_all(bytes)?;
    // Keeps the owner, for example under sudo.
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (about.uid(), about.gid()) {
        fchown(&file, Some(about.uid()), Some(about.gid()))?;
    }
    // Without set-user-ID bits: the owner may be another user than the writer.
    file.set_permissions(fs::Permissions::from_mode(about.mode() & 0o777))?;
    Ok(file.sync_all()?)
}

fn check_owner(found: &Stat) -> Result<(), StoreError> {
    let user = rustix::process::geteuid().as_raw();
    if found.st_uid == user { Ok(()) } else { Err(StoreError::WrongOwner { owner: found.st_uid, user }) }
}

/// `st_mode` is 16 bits wide on macOS.
fn permissions(found: &Stat) -> u32 {
    (found.st_mode & 0o7777) as _
}

/// Names that start with a dot are reserved for temporary files.
fn check_name(name: &str) -> Result<&str, StoreError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let fine = !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain);
    if fine { Ok(name) } else { Err(StoreError::InvalidName) }
}

/// Whether `name` is the key of an entry: 64 lower-case hexadecimal digits.
pub fn is_entry_key(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Returns the key of the entry to which the file `name` belongs, or `None` for other files.
pub fn entry_key(name: &str) -> Option<&str> {
    let (key, suffix) = name.split_at_checked(64)?;
    (is_entry_key(key) && SUFFIXES.contains(&suffix)).then_some(key)
}

/// Whether credlet assigns this name to files that may be removed: files of entries, temporary files (`.NAME.PID`) and
/// [`Store::NO_KEYRING`].
fn is_own_name(name: &str) -> bool {
    let temporary = name.strip_prefix('.').and_then(|rest| rest.rsplit_once('.'));
    let name = match temporary {
        Some((name, pid)) if !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) => return false,
        None => name,
    };
    entry_key(name).is_some() || name == Store::NO_KEYRING
}
