//! Bounded reads and private directories. Everything is checked on the open descriptor, never by path beforehand.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

/// How many seconds a pipe may stay silent. A program that decrypts a kubeconfig may have to fetch the key from a server.
const PIPE_IDLE_TIMEOUT: i64 = 10;

/// How many seconds a pipe may be without a writer.
const PIPE_OPEN_TIMEOUT: i64 = 1;

/// Error of a bounded read. The texts follow the name of the file: `/x/ca.crt does not exist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No such file.
    #[error("does not exist")]
    NotFound,
    /// The file cannot be accessed, or is not private ([`read_private`]).
    #[error("cannot be read: permission denied")]
    PermissionDenied,
    /// It is a directory.
    #[error("is a directory")]
    Directory,
    /// Another user owns it, or other users may write it.
    #[error("can be changed by other users")]
    Untrusted,
    /// A device or socket, or a pipe or link where these are not accepted.
    #[error("is not a regular file")]
    NotRegular,
    /// A pipe without a writer, or with an idle writer.
    #[error("is a pipe without a writer")]
    SilentPipe,
    /// Longer than the limit.
    #[error("is larger than {}", format_size(*limit))]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Any other error of the operating system.
    #[error("cannot be read: {0}")]
    Io(io::ErrorKind),
}

/// Formats a limit with a unit.
fn format_size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1_000_000) => format!("{} MB", bytes / 1_000_000),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

impl ReadError {
    /// Returns the nearest `ErrorKind`.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            Self::NotFound => io::ErrorKind::NotFound,
            Self::PermissionDenied | Self::Untrusted => io::ErrorKind::PermissionDenied,
            Self::Directory => io::ErrorKind::IsADirectory,
            Self::NotRegular => io::ErrorKind::InvalidInput,
            Self::SilentPipe => io::ErrorKind::TimedOut,
            Self::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            Self::Io(kind) => kind,
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            io::ErrorKind::IsADirectory => Self::Directory,
            // A link where links are not followed.
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Self::NotRegular,
            other => Self::Io(other),
        }
    }
}

/// Reads a regular file of at most `limit` bytes. Never blocks on a pipe and never reads a device. Follows links. The
/// null device counts as an empty file: `AWS_CONFIG_FILE=/dev/null` is a common way to disable a file.
///
/// # Errors
/// Fails if it is missing, not a regular file, or larger than `limit`.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let file = open(path, OFlags::empty())?;
    if is_null_device(&file.metadata()?) {
        return Ok(Zeroizing::default());
    }
    read_regular(&file, limit)
}

/// Opens a regular file for reading, for example to lock it. Never blocks on a pipe. Follows links.
///
/// # Errors
/// Fails if it is missing or not a regular file.
pub fn open_regular(path: &Path) -> Result<File, ReadError> {
    let file = open(path, OFlags::empty())?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Like [`read_bounded`], for a file that only the effective user may access: its owner is that user or root, and neither
/// group nor others have any permission. Does not follow links.
///
/// # Errors
/// Fails like [`read_bounded`]; [`ReadError::PermissionDenied`] if the file is another user's or open to others.
pub fn read_private(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let file = open(path, OFlags::NOFOLLOW)?;
    let about = file.metadata()?;
    if !is_trusted_owner(about.uid()) || about.mode() & 0o077 != 0 {
        return Err(ReadError::PermissionDenied);
    }
    read_regular(&file, limit)
}

/// Like [`read_bounded`], for a file that grants permissions, such as an allowlist: its owner is the effective user or root,
/// and others may not write it. Follows links. A group may have write access, which is the default of many distributions
/// (umask 002).
///
/// # Errors
/// Fails like [`read_bounded`]; [`ReadError::Untrusted`] if other users can change the file.
pub fn read_trusted(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let file = open(path, OFlags::empty())?;
    let about = file.metadata()?;
    if !is_trusted_owner(about.uid()) || about.mode() & 0o002 != 0 {
        return Err(ReadError::Untrusted);
    }
    read_regular(&file, limit)
}

/// Whether the effective user may execute the file.
pub fn is_executable(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Whether any execute permission is set.
pub fn has_execute_permission(metadata: &Metadata) -> bool {
    metadata.mode() & 0o111 != 0
}

/// Numbers that change when a file is replaced or modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFingerprint {
    /// Device of the file.
    pub device: u64,
    /// Inode number, unique on the device.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Modification time: seconds since the epoch, and nanoseconds.
    pub modified: [u64; 2],
}

impl FileFingerprint {
    /// Takes the fingerprint from metadata.
    pub fn new(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: [metadata.mtime().cast_unsigned(), metadata.mtime_nsec().cast_unsigned()],
        }
    }
}

/// Reads from `offset` without moving the file position. Returns the number of bytes read.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// Writes all bytes at `offset` without moving the file position.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Converts bytes of [`OsStr::as_encoded_bytes`](std::ffi::OsStr::as_encoded_bytes) back to a path.
pub fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(bytes).into()
}

fn read_regular(file: &File, limit: u64) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let about = file.metadata()?;
    check_regular(&about)?;
    read_to_limit(file, &about, limit)
}

fn is_null_device(about: &Metadata) -> bool {
    let null = std::fs::metadata("/dev/null");
    about.file_type().is_char_device() && null.is_ok_and(|null| null.rdev() == about.rdev())
}

fn check_regular(about: &Metadata) -> Result<(), ReadError> {
    match about.is_dir() {
        true => Err(ReadError::Directory),
        false if about.is_file() => Ok(()),
        false => Err(ReadError::NotRegular),
    }
}

/// Reads a file of at most `limit` bytes that may also be a pipe (a shell's `<(…)`) or `/dev/null`. A pipe may be idle for
/// 10 seconds, and without a writer for one.
///
/// # Errors
/// Fails like [`read_bounded`], but of other file types only for directories.
pub fn read_bounded_or_pipe(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let file = open(path, OFlags::empty())?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(ReadError::Directory);
    }
    read_to_limit(&file, &about, limit)
}

/// Opens a pipe without waiting for a writer, and a terminal without making it the controlling one.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | flags;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

fn read_to_limit(file: &File, about: &Metadata, limit: u64) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    if about.len() > limit {
        return Err(ReadError::TooLarge { limit });
    }
    let is_pipe = about.file_type().is_fifo();
    // Allocated at once: a growing vector leaves copies of the secret in freed memory.
    let capacity = usize::try_from(about.len()).unwrap_or_default() + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
    let mut chunk = Zeroizing::new([0; 16 << 10]);
    let mut may_wait_for_writer = is_pipe;
    loop {
        match (&mut &*file).read(&mut chunk[..]) {
            Ok(0) if bytes.is_empty() && may_wait_for_writer => {
                may_wait_for_writer = false;
                wait_readable(file, PIPE_OPEN_TIMEOUT)?;
            }
            Ok(0) if bytes.is_empty() && is_pipe => return Err(ReadError::SilentPipe),
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !wait_readable(file, PIPE_IDLE_TIMEOUT)? => {
                return Err(ReadError::SilentPipe);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
            return Err(ReadError::TooLarge { limit });
        }
    }
}

/// Whether the file became readable within `seconds`.
fn wait_readable(file: &File, seconds: i64) -> Result<bool, ReadError> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&limit)) {
        Ok(0) => Ok(false),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// A directory that must not be used. The texts follow the path of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsafeDir {
    /// Another type of file, or a link.
    #[error("is not a directory")]
    NotDirectory,
    /// Owned by another user.
    #[error("belongs to another user (uid {owner})")]
    ForeignOwner {
        /// The owner's user id.
        owner: u32,
    },
    /// Accessible to other users.
    #[error("is open to other users (mode {mode:04o})")]
    OpenToOthers {
        /// Permission bits of the directory.
        mode: u32,
    },
    /// Error of the operating system.
    #[error("cannot be used: {0}")]
    Io(io::ErrorKind),
}

impl From<io::Error> for UnsafeDir {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotADirectory => Self::NotDirectory,
            kind => Self::Io(kind),
        }
    }
}

/// Opens a private directory: not a link, owned by the effective user, without permissions for others. Does not repair
/// permissions: other users may already have created files in it.
///
/// # Errors
/// Fails if it is missing ([`UnsafeDir::Io`] with `NotFound`) or does not meet these conditions.
pub fn open_private_dir(path: &Path) -> Result<OwnedFd, UnsafeDir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match rustix::fs::open(path, flags, Mode::empty()) {
        // Linux reports a link in the last component as ELOOP or ENOTDIR.
        Err(rustix::io::Errno::LOOP) => return Err(UnsafeDir::NotDirectory),
        opened => opened.map_err(io::Error::from)?,
    };
    let dir = File::from(dir);
    let about = dir.metadata()?;
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(UnsafeDir::ForeignOwner { owner: about.uid() });
    }
    let mode = about.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(UnsafeDir::OpenToOthers { mode });
    }
    Ok(dir.into())
}

/// Opens a private directory and creates it, mode 0700, with the missing directories above it. It is created only where
/// every existing directory and link on the path belongs to the effective user or root, so that root with another user's
/// `HOME` creates nothing there.
///
/// # Errors
/// Fails like [`open_private_dir`], and if it cannot be created.
pub fn create_private_dir(path: &Path) -> Result<OwnedFd, UnsafeDir> {
    match open_private_dir(path) {
        Err(UnsafeDir::Io(io::ErrorKind::NotFound)) => {}
        opened => return opened,
    }
    create_components(path)?;
    open_private_dir(path)
}

/// Creates the missing directories of `path`. Each component is opened relative to its parent and its owner is checked
/// on the descriptor, so that no other user can exchange a directory or a link between check and use.
#[cfg(target_os = "linux")]
fn create_components(path: &Path) -> Result<(), UnsafeDir> {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStringExt as _;

    use rustix::fs::{FileType, fstat, mkdirat, openat, readlinkat};
    use rustix::io::Errno;

    /// The limit of the kernel.
    const MAX_LINKS: usize = 40;

    fn push_components(pending: &mut Vec<OsString>, path: &Path) {
        pending.extend(path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        }));
    }

    if !path.is_absolute() {
        return Err(UnsafeDir::Io(io::ErrorKind::InvalidInput));
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = || rustix::fs::open("/", flags | OFlags::DIRECTORY, Mode::empty()).map_err(io::Error::from);
    let mut dir = root()?;
    let mut pending = Vec::new();
    push_components(&mut pending, path);
    let mut links = 0;
    while let Some(name) = pending.pop() {
        let found = match openat(&dir, OsStr::new(&name), flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(&dir, OsStr::new(&name), Mode::RWXU) {
                    // Another process may have created it; the owner is checked below.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(io::Error::from(error).into()),
                }
                openat(&dir, OsStr::new(&name), flags, Mode::empty()).map_err(io::Error::from)?
            }
            opened => opened.map_err(io::Error::from)?,
        };
        let about = fstat(&found).map_err(io::Error::from)?;
        if !is_trusted_owner(about.st_uid) {
            return Err(UnsafeDir::ForeignOwner { owner: about.st_uid });
        }
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory => dir = found,
            FileType::Symlink if links < MAX_LINKS => {
                links += 1;
                let target = readlinkat(&found, "", Vec::new()).map_err(io::Error::from)?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    dir = root()?;
                }
                push_components(&mut pending, &target);
            }
            _ => return Err(UnsafeDir::NotDirectory),
        }
    }
    Ok(())
}

/// Without `O_PATH` the owners are checked by path.
#[cfg(not(target_os = "linux"))]
fn create_components(path: &Path) -> Result<(), UnsafeDir> {
    use std::os::unix::fs::DirBuilderExt as _;
    check_owners(path)?;
    Ok(std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?)
}

/// Whether files below `path` can be used by path without another user being able to replace them: `path` and all
/// directories above it belong to the effective user or root, and those that others may write are sticky.
///
/// # Errors
/// The problem of the first directory that does not.
pub fn check_trusted_dir(path: &Path) -> Result<(), UnsafeDir> {
    if !std::fs::metadata(path)?.is_dir() {
        return Err(UnsafeDir::NotDirectory);
    }
    check_components(path, |about| {
        let mode = about.mode() & 0o7777;
        let writable_by_others = about.is_dir() && mode & 0o022 != 0 && mode & 0o1000 == 0;
        if writable_by_others { Err(UnsafeDir::OpenToOthers { mode }) } else { Ok(()) }
    })
}

/// Returns a directory for temporary files that other users cannot replace: `$TMPDIR`, or `/tmp` without that variable, if
/// [`check_trusted_dir`] accepts it, otherwise the home directory.
///
/// # Errors
/// Fails if neither can be used.
pub fn temp_dir(env: &dyn crate::Env) -> Result<PathBuf, UnsafeDir> {
    let temporary = env.var("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let temporary = temporary.unwrap_or_else(|| "/tmp".into());
    let Err(reason) = check_trusted_dir(&temporary) else { return Ok(temporary) };
    let home = env.home_dir().ok_or(reason)?;
    check_trusted_dir(&home)?;
    Ok(home)
}

/// Whether every directory and link on `path` that exists belongs to the effective user or root. Use this before files are
/// written or removed by path below a directory that the environment names.
///
/// # Errors
/// [`UnsafeDir::ForeignOwner`] with the owner of the first one that does not.
pub fn check_owners(path: &Path) -> Result<(), UnsafeDir> {
    check_components(path, |_| Ok(()))
}

/// Checks the owner of each existing component of `path`, and `also`, without following links; where one is a link, the
/// components of its target as well.
fn check_components(path: &Path, also: impl Fn(&Metadata) -> Result<(), UnsafeDir>) -> Result<(), UnsafeDir> {
    let check = |path: &Path| -> Result<Option<bool>, UnsafeDir> {
        let mut walked = PathBuf::new();
        let mut has_link = false;
        for component in path.components() {
            walked.push(component);
            if matches!(component, Component::ParentDir) {
                has_link = true;
            }
            let about = match std::fs::symlink_metadata(&walked) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                found => found?,
            };
            if !is_trusted_owner(about.uid()) {
                return Err(UnsafeDir::ForeignOwner { owner: about.uid() });
            }
            has_link |= about.is_symlink();
            also(&about)?;
        }
        Ok(Some(has_link))
    };
    if !path.is_absolute() {
        return Err(UnsafeDir::Io(io::ErrorKind::InvalidInput));
    }
    if check(path)? == Some(false) {
        return Ok(());
    }
    // The longest part of the path that exists, with its links resolved.
    match path.ancestors().find_map(|part| part.canonicalize().ok()) {
        Some(existing) => check(&existing).map(drop),
        None => Ok(()),
    }
}

/// Trusts root, which can change any file anyway.
pub(crate) fn is_trusted_owner(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// Regular file, not a link to one.
    Regular,
    /// Directory, not a link to one.
    Directory,
    /// Socket of a local listener.
    Socket,
    /// Link, pipe or device.
    Other,
}

/// Kind, owner and permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// Kind of the file.
    pub kind: FileKind,
    /// User id of the owner.
    pub owner: u32,
    /// Permission bits, without those of the kind.
    pub mode: u32,
}

impl FileAttributes {
    /// Returns the attributes of an open file.
    ///
    /// # Errors
    /// Fails if the system cannot read them.
    pub fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|about| Self::new(&about))
    }

    /// Returns the attributes of the file at `path`. Does not follow a link in the last component.
    ///
    /// # Errors
    /// Fails if the file is missing or cannot be reached.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::symlink_metadata(path).map(|about| Self::new(&about))
    }

    /// Like [`at`](Self::at), but follows links.
    ///
    /// # Errors
    /// Fails like [`at`](Self::at).
    pub fn at_target(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|about| Self::new(&about))
    }

    fn new(about: &Metadata) -> Self {
        Self::from_raw(about.uid(), about.mode())
    }

    pub(crate) fn from_raw(owner: u32, mode: u32) -> Self {
        use rustix::fs::{FileType, RawMode};
        let kind = match FileType::from_raw_mode(mode as RawMode) {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Directory,
            FileType::Socket => FileKind::Socket,
            _ => FileKind::Other,
        };
        Self { kind, owner, mode: mode & 0o7777 }
    }

    /// Whether the effective user owns the file.
    pub fn is_own(&self) -> bool {
        self.owner == rustix::process::geteuid().as_raw()
    }

    /// Whether the effective user or root owns the file.
    pub fn has_trusted_owner(&self) -> bool {
        is_trusted_owner(self.owner)
    }

    /// Whether group or others have any permission.
    pub fn is_open_to_others(&self) -> bool {
        self.mode & 0o077 != 0
    }

    /// Whether group or others may write the file, or create and remove files in the directory.
    pub fn is_writable_by_others(&self) -> bool {
        self.mode & 0o022 != 0
    }
}

/// Whether the path is a regular file that only the system administrator can change. Follows links.
pub fn is_system_file(path: &Path) -> bool {
    FileAttributes::at_target(path)
        .is_ok_and(|about| about.kind == FileKind::Regular && about.owner == 0 && !about.is_writable_by_others())
}

/// Identity of a file, which a path may lose and another file take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the identity of an open file.
    ///
    /// # Errors
    /// Fails if the system cannot read it.
    pub fn of_file(file: &File) -> io::Result<Self> {
        file.metadata().map(|about| Self { device: about.dev(), inode: about.ino() })
    }
}

/// Whether `file` is the file at `path`, which another process may have removed or replaced. Does not follow a link in the last
/// component.
pub fn is_at_path(file: &File, path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path).map(|about| FileId { device: about.dev(), inode: about.ino() });
    matches!((FileId::of_file(file), found), (Ok(open), Ok(found)) if open == found)
}

/// Opens a regular file with `options`; if these create it, it is private (mode 0600). Neither follows a link in the last
/// component nor blocks on a pipe. The kind is checked on the open descriptor.
///
/// # Errors
/// `InvalidInput` if it is another kind of file, else the error of `open`.
pub fn open_regular_no_follow(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let file = open_no_follow(path, options)?;
    match FileAttributes::of_file(&file)?.kind {
        FileKind::Regular => Ok(file),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Like [`open_regular_no_follow`], for a file that must belong to the effective user.
///
/// # Errors
/// `PermissionDenied` if it is another kind of file or another user's, else the error of `open`.
pub fn open_own_no_follow(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let file = open_no_follow(path, options)?;
    let about = FileAttributes::of_file(&file)?;
    if about.kind == FileKind::Regular && about.is_own() {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn open_no_follow(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    options.clone().mode(0o600).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Creates a private file (mode 0600) for reading and writing.
///
/// # Errors
/// `AlreadyExists` if there is any file at `path`, even a link; else the error of `open`.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a private directory (mode 0700) in an existing one. Returns `false` if there is a file at `path`, which
/// [`open_private_dir`] checks.
///
/// # Errors
/// Fails if it cannot be created.
pub fn make_private_dir(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::DirBuilderExt as _;
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Users that may reach known names in a directory, beside its owner. They can neither list nor change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirSearchAccess {
    /// All users of the system.
    Everyone,
    /// The members of the group with this id.
    Group(u32),
}

/// Replaces the permissions of a directory of the effective user. Does not depend on the umask.
///
/// # Errors
/// Fails if the system denies it, for example because the user is not a member of the group.
pub fn share_dir(path: &Path, access: DirSearchAccess) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = match access {
        DirSearchAccess::Everyone => 0o711,
        DirSearchAccess::Group(group) => {
            std::os::unix::fs::chown(path, None, Some(group))?;
            0o710
        }
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Whether this user may create files in the directory.
pub fn can_create_in(dir: &Path) -> bool {
    use rustix::fs::Access;
    rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Removes a file from a private directory. The directory is checked like that of [`open_private_dir`], and cannot be
/// exchanged between check and removal.
///
/// # Errors
/// Fails like [`open_private_dir`], and if the file cannot be removed or does not exist.
pub fn remove_private_file(path: &Path) -> Result<(), UnsafeDir> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(UnsafeDir::Io(io::ErrorKind::InvalidInput));
    };
    let dir = open_private_dir(dir)?;
    Ok(rustix::fs::unlinkat(&dir, name, rustix::fs::AtFlags::empty()).map_err(io::Error::from)?)
}

/// How many names of temporary directories are tried.
const MAX_TEMP_NAMES: u32 = 100;

/// A temporary directory that only the effective user can access (mode 0700). Removed with its content on drop.
#[derive(Debug)]
pub struct PrivateTempDir(PathBuf);

impl PrivateTempDir {
    /// Creates a directory in `parent`. Its name is `prefix` and 8 random hexadecimal digits. Use [`temp_dir`] for `parent`.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn create_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        use std::hash::BuildHasher as _;

        for _ in 0..MAX_TEMP_NAMES {
            // The standard library seeds this hasher with random numbers of the system.
            let random = std::hash::RandomState::new().hash_one(0) >> 32;
            let path = parent.join(format!("{prefix}{random:08x}"));
            if make_private_dir(&path)? {
                return Ok(Self(path));
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateTempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Metadata that every write to a file changes at least in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    fingerprint: FileFingerprint,
    /// Time of the last change of content or metadata, in seconds and nanoseconds. Unlike the modification time, programs
    /// cannot set it.
    changed: [i64; 2],
}

impl FileVersion {
    /// Takes the version from metadata.
    pub fn new(metadata: &Metadata) -> Self {
        let changed = [metadata.ctime(), metadata.ctime_nsec()];
        Self { fingerprint: FileFingerprint::new(metadata), changed }
    }
}

/// Why another user can replace or modify a file or directory. The texts follow its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exposure {
    /// The owner is neither the effective user nor root.
    #[error("belongs to another user")]
    ForeignOwner,
    /// All users have write permission.
    #[error("is writable by all users")]
    WritableByAll,
    /// A group other than the user's primary group and root's has write permission.
    #[error("is writable by another group")]
    WritableByGroup,
}

impl Exposure {
    /// Checks owner and permissions; does not check the directories above.
    ///
    /// In a directory with the sticky bit, like `/tmp`, users cannot replace each other's files. Write permission of the
    /// user's primary group is accepted: on many systems every user has a private group.
    pub fn of(metadata: &Metadata) -> Option<Self> {
        let us = [rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()];
        exposure(metadata.mode(), metadata.is_dir(), [metadata.uid(), metadata.gid()], us)
    }
}

fn exposure(mode: u32, is_dir: bool, owner: [u32; 2], us: [u32; 2]) -> Option<Exposure> {
    let [uid, gid] = owner;
    let sticky = is_dir && mode & 0o1000 != 0;
    if uid != us[0] && uid != 0 {
        return Some(Exposure::ForeignOwner);
    }
    if sticky {
        return None;
    }
    if mode & 0o002 != 0 {
        return Some(Exposure::WritableByAll);
    }
    (mode & 0o020 != 0 && gid != us[1] && gid != 0).then_some(Exposure::WritableByGroup)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn private_tempdir() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    #[test]
    fn bounded_read_rejects_pipes_and_devices() {
        let dir = private_tempdir();
        let file = dir.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_bounded(&file, 5).unwrap().as_slice(), b"12345");
        assert_eq!(read_bounded(&file, 4), Err(ReadError::TooLarge { limit: 4 }));
        assert_eq!(read_bounded(dir.path(), 4), Err(ReadError::Directory));
        assert_eq!(read_bounded(&dir.path().join("none"), 4), Err(ReadError::NotFound));
        assert_eq!(read_bounded(Path::new("/dev/zero"), 4), Err(ReadError::NotRegular));
        assert_eq!(read_bounded(Path::new("/dev/null"), 4).unwrap().as_slice(), b"");
        assert_eq!(read_bounded_or_pipe(Path::new("/dev/zero"), 4), Err(ReadError::TooLarge { limit: 4 }));
        let pipe = dir.path().join("pipe");
        credlet_testkit::make_fifo(&pipe);
        assert_eq!(read_bounded(&pipe, 4), Err(ReadError::NotRegular));
        assert_eq!(open_regular(&pipe).unwrap_err(), ReadError::NotRegular);
        assert!(open_regular(&file).is_ok());
        assert_eq!(read_bounded_or_pipe(&pipe, 4), Err(ReadError::SilentPipe));
        // `stat` reports length 0, but it has content.
        #[cfg(target_os = "linux")]
        assert!(!read_bounded(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
    }

    #[test]
    fn private_read_rejects_links_and_open_modes() {
        let dir = private_tempdir();
        let file = dir.path().join("file");
        fs::write(&file, "12345").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(read_private(&file, 5), Err(ReadError::PermissionDenied));
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_private(&file, 5).unwrap().as_slice(), b"12345");
        symlink(&file, dir.path().join("link")).unwrap();
        assert_eq!(read_private(&dir.path().join("link"), 5), Err(ReadError::NotRegular));
    }

    #[test]
    fn trusted_read_rejects_writable_by_others() {
        let dir = private_tempdir();
        let file = dir.path().join("file");
        fs::write(&file, "12345").unwrap();
        for (mode, expected) in [(0o600, true), (0o644, true), (0o664, true), (0o666, false), (0o602, false)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_trusted(&file, 5).is_ok(), expected, "{mode:o}");
        }
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        assert_eq!(read_trusted(&link, 5).unwrap().as_slice(), b"12345");
        let pipe = dir.path().join("pipe");
        credlet_testkit::make_fifo(&pipe);
        assert_eq!(read_trusted(&pipe, 5), Err(ReadError::NotRegular));
        assert_eq!(read_trusted(dir.path(), 5), Err(ReadError::Directory));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(4242), None).unwrap();
            assert_eq!(read_trusted(&file, 5), Err(ReadError::Untrusted));
            assert_eq!(read_trusted(&link, 5), Err(ReadError::Untrusted));
        }
    }

    #[test]
    fn private_directory_is_created_and_never_repaired() {
        let dir = private_tempdir();
        let path = dir.path().join("a/b");
        create_private_dir(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(create_private_dir(&path).unwrap_err(), UnsafeDir::OpenToOthers { mode: 0o755 });
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
        symlink(dir.path().join("a"), dir.path().join("link")).unwrap();
        assert_eq!(open_private_dir(&dir.path().join("link")).unwrap_err(), UnsafeDir::NotDirectory);
    }

    #[test]
    fn trusted_directory_may_be_sticky_but_not_open() {
        let dir = private_tempdir();
        assert_eq!(check_trusted_dir(dir.path()), Ok(()));
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let below = open.join("below");
        fs::create_dir(&below).unwrap();
        assert_eq!(check_trusted_dir(&below), Err(UnsafeDir::OpenToOthers { mode: 0o777 }));
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(check_trusted_dir(&below), Ok(()));
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        symlink(&open, dir.path().join("link")).unwrap();
        assert_eq!(check_trusted_dir(&dir.path().join("link")), Err(UnsafeDir::OpenToOthers { mode: 0o777 }));
        assert_eq!(check_trusted_dir(Path::new("relative")), Err(UnsafeDir::Io(io::ErrorKind::NotFound)));
    }

    #[test]
    fn rejects_temp_dir_writable_by_others() {
        let dir = private_tempdir();
        let [home, open] = ["home", "open"].map(|name| dir.path().join(name));
        for (path, mode) in [(&home, 0o700), (&open, 0o777)] {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let env = |tmp: &Path| crate::FixedEnv::new([("HOME", home.as_path()), ("TMPDIR", tmp)]);
        assert_eq!(temp_dir(&env(&open)), Ok(home.clone()));
        assert_eq!(temp_dir(&env(dir.path())), Ok(dir.path().to_owned()));
        assert_eq!(temp_dir(&env(Path::new("relative"))), Ok("/tmp".into()));
    }

    #[test]
    fn creates_nothing_in_another_users_directory() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = private_tempdir();
        let foreign = dir.path().join("home");
        fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::chown(&foreign, Some(4242), Some(4242)).unwrap();
        assert_eq!(create_private_dir(&foreign.join("x")).unwrap_err(), UnsafeDir::ForeignOwner { owner: 4242 });
        assert_eq!(fs::read_dir(&foreign).unwrap().count(), 0);
        // Through a link of that user to our directory.
        let ours = dir.path().join("ours");
        fs::create_dir(&ours).unwrap();
        let link = dir.path().join("link");
        symlink(&ours, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(4242), Some(4242)).unwrap();
        assert_eq!(create_private_dir(&link.join("x")).unwrap_err(), UnsafeDir::ForeignOwner { owner: 4242 });
        assert_eq!(fs::read_dir(&ours).unwrap().count(), 0);
    }

    #[test]
    fn private_directory_is_created_behind_own_links() {
        let dir = private_tempdir();
        fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real/../real", dir.path().join("relative")).unwrap();
        symlink(dir.path().join("relative"), dir.path().join("absolute")).unwrap();
        create_private_dir(&dir.path().join("absolute/../relative/a/b")).unwrap();
        assert!(dir.path().join("real/a/b").is_dir());
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(create_private_dir(&dir.path().join("loop/x")).is_err());
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(create_private_dir(&dir.path().join("file/x")).unwrap_err(), UnsafeDir::NotDirectory);
        assert_eq!(create_private_dir(Path::new("x/y")).unwrap_err(), UnsafeDir::Io(io::ErrorKind::InvalidInput));
    }

    fn writable() -> OpenOptions {
        File::options().read(true).write(true).clone()
    }

    #[test]
    fn open_without_following_rejects_links_and_pipes() {
        let dir = private_tempdir();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| dir.path().join(name));
        assert!(open_regular_no_follow(&file, &writable()).is_err());
        open_regular_no_follow(&file, writable().create(true)).unwrap();
        assert_eq!(FileAttributes::at(&file).unwrap().mode, 0o600);
        assert!(open_own_no_follow(&file, &writable()).is_ok());
        symlink(&file, &link).unwrap();
        credlet_testkit::make_fifo(&pipe);
        for path in [&link, &pipe, &dir.path().to_owned()] {
            assert!(open_regular_no_follow(path, &writable()).is_err(), "{path:?}");
            assert!(open_own_no_follow(path, &writable()).is_err(), "{path:?}");
        }
        assert_eq!(open_regular_no_follow(&pipe, &writable()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(open_own_no_follow(&pipe, &writable()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(4242), None).unwrap();
            assert_eq!(open_own_no_follow(&file, &writable()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert!(open_regular_no_follow(&file, &writable()).is_ok());
        }
    }

    #[test]
    fn created_file_is_private_and_new() {
        let dir = private_tempdir();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        symlink(&file, &link).unwrap();
        assert_eq!(create_private_file(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let created = create_private_file(&file).unwrap();
        assert_eq!(FileAttributes::of_file(&created).unwrap().mode, 0o600);
        assert_eq!(create_private_file(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn replaced_file_is_not_at_its_path() {
        let dir = private_tempdir();
        let [path, link] = ["file", "link"].map(|name| dir.path().join(name));
        let file = create_private_file(&path).unwrap();
        symlink(&path, &link).unwrap();
        assert!(is_at_path(&file, &path) && !is_at_path(&file, &link));
        fs::remove_file(&path).unwrap();
        assert!(!is_at_path(&file, &path));
        let other = create_private_file(&path).unwrap();
        assert!(!is_at_path(&file, &path) && is_at_path(&other, &path));
        assert_ne!(FileId::of_file(&file).unwrap(), FileId::of_file(&other).unwrap());
    }

    #[test]
    fn shared_directory_is_searchable_only() {
        let dir = private_tempdir();
        let path = dir.path().join("shared");
        assert!(make_private_dir(&path).unwrap() && !make_private_dir(&path).unwrap());
        assert_eq!(FileAttributes::at(&path).unwrap().mode, 0o700);
        share_dir(&path, DirSearchAccess::Everyone).unwrap();
        assert_eq!(FileAttributes::at(&path).unwrap().mode, 0o711);
        let group = rustix::process::getegid().as_raw();
        share_dir(&path, DirSearchAccess::Group(group)).unwrap();
        let shared = fs::metadata(&path).unwrap();
        assert_eq!((shared.mode() & 0o7777, shared.gid()), (0o710, group));
    }

    #[test]
    fn attributes_name_kind_and_permissions() {
        let dir = private_tempdir();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let about = FileAttributes::at_target(&link).unwrap();
        assert_eq!((about.kind, about.mode), (FileKind::Regular, 0o640));
        assert!(about.is_own() && about.has_trusted_owner());
        assert!(about.is_open_to_others() && !about.is_writable_by_others());
        assert_eq!(FileAttributes::at(&link).unwrap().kind, FileKind::Other);
        assert_eq!(FileAttributes::at(dir.path()).unwrap().kind, FileKind::Directory);
        fs::set_permissions(&file, Permissions::from_mode(0o620)).unwrap();
        assert!(!is_system_file(&link));
    }

    const US: [u32; 2] = [1000, 1000];

    #[test]
    fn finds_paths_writable_by_others() {
        assert_eq!(exposure(0o777, false, US, US), Some(Exposure::WritableByAll));
        assert_eq!(exposure(0o775, false, [1000, 100], US), Some(Exposure::WritableByGroup));
        assert_eq!(exposure(0o755, false, [1001, 1001], US), Some(Exposure::ForeignOwner));
        assert_eq!(exposure(0o1777, true, [1001, 1001], US), Some(Exposure::ForeignOwner));
    }

    #[test]
    fn accepts_paths_of_user_and_root() {
        assert_eq!(exposure(0o755, false, US, US), None);
        assert_eq!(exposure(0o775, true, US, US), None);
        assert_eq!(exposure(0o755, true, [0, 0], US), None);
        assert_eq!(exposure(0o1777, true, [0, 0], US), None);
    }

    #[test]
    fn removes_files_from_private_directories_only() {
        let dir = private_tempdir();
        let file = dir.path().join("file");
        create_private_file(&file).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(remove_private_file(&file), Err(UnsafeDir::OpenToOthers { mode: 0o755 }));
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        assert_eq!(remove_private_file(&file), Ok(()));
        assert_eq!(remove_private_file(&file), Err(UnsafeDir::Io(io::ErrorKind::NotFound)));
    }

    #[test]
    fn temp_dir_is_private_and_removed() {
        let parent = private_tempdir();
        let dir = PrivateTempDir::create_in(parent.path(), "a-").unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
        fs::create_dir(dir.path().join("b")).unwrap();
        fs::write(dir.path().join("b/c"), "").unwrap();
        drop(dir);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
