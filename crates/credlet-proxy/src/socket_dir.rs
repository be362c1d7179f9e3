//! Sockets in a directory that is checked through its open descriptor, so that the checked directory is the one
//! connected to.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::OFlags;
use rustix::fs::{AtFlags, FileType, Mode, Stat};

/// An open directory. Without `O_PATH`, opening needs read permission, which a group may lack; such systems use the
/// path.
#[derive(Debug)]
pub(crate) struct SocketDir {
    path: PathBuf,
    open: Option<OwnedFd>,
}

/// Type, owner and permissions of a directory or socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileAttributes {
    pub(crate) file_type: FileType,
    pub(crate) uid: u32,
    pub(crate) mode: Mode,
}

impl From<Stat> for FileAttributes {
    fn from(stat: Stat) -> Self {
        let (file_type, mode) = (FileType::from_raw_mode(stat.st_mode), Mode::from_raw_mode(stat.st_mode));
        Self { file_type, uid: stat.st_uid, mode: mode & (Mode::RWXU | Mode::RWXG | Mode::RWXO) }
    }
}

impl SocketDir {
    /// Opens the directory of this socket without following a symlink.
    ///
    /// # Errors
    /// `ErrorKind::NotADirectory` if it is not a directory.
    pub(crate) fn of(socket: &Path) -> io::Result<Self> {
        let path = socket.parent().unwrap_or(Path::new("/")).to_owned();
        #[cfg(target_os = "linux")]
        let open = {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Some(rustix::fs::open(&path, flags, Mode::empty())?)
        };
        #[cfg(not(target_os = "linux"))]
        let open = None;
        Ok(Self { path, open })
    }

    pub(crate) fn about(&self) -> io::Result<FileAttributes> {
        let stat = match &self.open {
            Some(dir) => rustix::fs::fstat(dir),
            None => rustix::fs::lstat(&self.path),
        };
        Ok(stat?.into())
    }

    /// Attributes of the entry of this name. Symlinks are not followed.
    pub(crate) fn entry(&self, name: &OsStr) -> io::Result<FileAttributes> {
        let stat = match &self.open {
            Some(dir) => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
            None => rustix::fs::lstat(self.path.join(name)),
        };
        Ok(stat?.into())
    }

    /// Path of this name through the open descriptor, which stays correct if the directory is replaced. Valid while
    /// `self` lives.
    pub(crate) fn address(&self, name: &OsStr) -> PathBuf {
        let by_descriptor = self.open.as_ref().map(|dir| PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())));
        // `/proc` may not be mounted.
        by_descriptor.filter(|path| path.exists()).unwrap_or_else(|| self.path.clone()).join(name)
    }
}
