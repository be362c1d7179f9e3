use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::StoreError;

/// No honest entry is larger: a certificate chain with its key has some ten thousand bytes.
const LARGEST: u64 = 4 << 20;

/// A directory of small secret files, this user's alone.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    dir: OwnedFd,
}

impl Store {
    /// The directory at `path`. What is missing of it is made; one that others can look into is closed to them.
    ///
    /// # Errors
    /// When it is not this user's, or cannot be made.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let dir = match open_dir(path) {
            Err(error) if error.is_missing() => {
                use std::os::unix::fs::DirBuilderExt as _;
                fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
                open_dir(path)?
            }
            opened => opened?,
        };
        let found = rustix::fs::fstat(&dir)?;
        owned(&found)?;
        if permissions(&found) & 0o077 != 0 {
            rustix::fs::fchmod(&dir, Mode::RWXU)?;
        }
        Ok(Self { path: path.to_owned(), dir })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in the file `name`. `None`: there is no such file.
    ///
    /// # Errors
    /// When it is a link, another user's, or open to others: then somebody else may have written it.
    pub fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
        let mut file = match self.open_file(name, OFlags::RDONLY) {
            Err(error) if error.is_missing() => return Ok(None),
            opened => opened?,
        };
        let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        // One byte more: its end is seen without growing, and what grows leaves a copy behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(size.saturating_add(1)));
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Puts `bytes` into the file `name`: readers see the old file or the new one, also after a crash.
    ///
    /// # Errors
    /// When the disk is full, read-only or gone. Nothing is left behind then.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let draft = format!(".{}.{}", checked(name)?, std::process::id());
        let filled = self.fill(&draft, bytes).and_then(|()| {
            rustix::fs::renameat(&self.dir, &draft, &self.dir, name)?;
            Ok(())
        });
        if filled.is_err() {
            // If that fails too, there is an incomplete file of a name that nobody reads.
            let _ = rustix::fs::unlinkat(&self.dir, &draft, AtFlags::empty());
        }
        filled
    }

    fn fill(&self, draft: &str, bytes: &[u8]) -> Result<(), StoreError> {
        // What a process of the same number left behind.
        match rustix::fs::unlinkat(&self.dir, draft, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.dir, draft, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(())
    }

    /// Takes the file `name` away. Whether there was one.
    ///
    /// # Errors
    /// When it is still there.
    pub fn remove(&self, name: &str) -> Result<bool, StoreError> {
        match rustix::fs::unlinkat(&self.dir, checked(name)?, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of all files, sorted, without those that are being written.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            if checked(name).is_ok() {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Removes all files that were last written before `oldest`. For stores whose files may go at any time.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(crate) fn sweep(&self, oldest: Timestamp) -> Result<(), StoreError> {
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let entry = entry?;
            let Ok(found) = rustix::fs::statat(&self.dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
            if is_file && found.st_mtime < oldest.as_second() {
                // If it cannot be removed, it does no harm.
                let _ = rustix::fs::unlinkat(&self.dir, entry.file_name(), AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Whether something happens for the first time since somebody last emptied the store or [swept](Self::sweep) it: for
    /// warnings that would be a nuisance if they came with every run. Where that cannot be kept, it is always the first.
    pub(crate) fn is_first(&self, name: &str) -> bool {
        let Ok(name) = checked(name) else { return true };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        !matches!(rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR), Err(Errno::EXIST))
    }

    /// A small file that is changed in place, made if need be. Nothing in it may be needed after a crash.
    ///
    /// # Errors
    /// As for [`read`](Self::read) and [`write`](Self::write).
    pub(crate) fn scratch(&self, name: &str) -> Result<File, StoreError> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<File, StoreError> {
        // A pipe in the file's place must not keep us waiting.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.dir, checked(name)?, flags, Mode::RUSR | Mode::WUSR)?;
        let found = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(StoreError::NotPlain);
        }
        owned(&found)?;
        match permissions(&found) {
            mode if mode & 0o077 != 0 => return Err(StoreError::NotPrivate { mode }),
            _ => {}
        }
        if u64::try_from(found.st_size).unwrap_or(u64::MAX) > LARGEST {
            return Err(StoreError::TooLarge { limit: LARGEST });
        }
        Ok(File::from(file))
    }
}

/// Puts `bytes` into the place of a file that others may write as well, for the same people as before.
///
/// # Errors
/// When it cannot be written. The old file stays then.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    // Through a link to the file itself, which keeps its links.
    let path = fs::canonicalize(path)?;
    let about = fs::metadata(&path)?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return Err(StoreError::Name);
    };
    let draft = parent.join(format!(".{name}.{}", std::process::id()));
    let filled = fill_for(&draft, &about, bytes).and_then(|()| Ok(fs::rename(&draft, &path)?));
    if filled.is_err() {
        let _ = fs::remove_file(&draft);
    }
    filled
}

fn fill_for(draft: &Path, about: &fs::Metadata, bytes: &[u8]) -> Result<(), StoreError> {
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(bytes)?;
    // Under sudo the file stays its owner's.
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (about.uid(), about.gid()) {
        fchown(&file, Some(about.uid()), Some(about.gid()))?;
    }
    file.set_permissions(about.permissions())?;
    Ok(file.sync_all()?)
}

fn open_dir(path: &Path) -> Result<OwnedFd, StoreError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn owned(found: &Stat) -> Result<(), StoreError> {
    let user = rustix::process::geteuid().as_raw();
    if found.st_uid == user { Ok(()) } else { Err(StoreError::NotOurs { owner: found.st_uid, user }) }
}

fn permissions(found: &Stat) -> RawMode {
    found.st_mode & 0o7777
}

/// Plain names only; those that begin with a point are drafts.
fn checked(name: &str) -> Result<&str, StoreError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let fine = !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain);
    if fine { Ok(name) } else { Err(StoreError::Name) }
}
