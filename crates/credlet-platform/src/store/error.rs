use std::io;

use crate::fs::UnsafeDir;
use rustix::io::Errno;

/// A store, or a file in it, cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A symbolic link or special file.
    #[error("not a regular file or directory")]
    NotRegular,
    /// Owned by another user.
    #[error("permission denied: belongs to user {owner}, must belong to user {user}")]
    WrongOwner {
        /// User id of the owner.
        owner: u32,
        /// Effective user id.
        user: u32,
    },
    /// Accessible to other users.
    #[error("must not be accessible to other users: mode is {mode:04o}")]
    NotPrivate {
        /// Permission bits of the file or directory.
        mode: u32,
    },
    /// The file exceeds the size limit.
    #[error("too large: must be at most {limit} bytes")]
    TooLarge {
        /// Maximum size in bytes.
        limit: u64,
    },
    /// A name that is not allowed, for example one with a separator.
    #[error("invalid file name")]
    InvalidName,
    /// Another process held the lock for too long.
    #[error("timed out waiting for a lock{}", held_by(*.holder))]
    Locked {
        /// Process id of the holder, if known.
        holder: Option<u32>,
    },
    /// Error of the operating system.
    #[error("{0}")]
    System(Errno),
    /// Error of the operating system of which only the kind is known.
    #[error("{0}")]
    Io(io::ErrorKind),
}

impl StoreError {
    /// Returns the nearest `ErrorKind`.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            Self::NotRegular | Self::InvalidName => io::ErrorKind::InvalidInput,
            Self::WrongOwner { .. } | Self::NotPrivate { .. } => io::ErrorKind::PermissionDenied,
            Self::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            Self::Locked { .. } => io::ErrorKind::TimedOut,
            Self::System(error) => error.kind(),
            Self::Io(kind) => kind,
        }
    }

    /// Whether the file does not exist.
    pub(super) fn is_missing(self) -> bool {
        self == Self::System(Errno::NOENT)
    }
}

fn held_by(holder: Option<u32>) -> String {
    holder.map(|pid| format!(" held by process {pid}")).unwrap_or_default()
}

impl From<Errno> for StoreError {
    fn from(error: Errno) -> Self {
        match error {
            // Results of O_NOFOLLOW for a link and of O_DIRECTORY for other files.
            Errno::LOOP | Errno::NOTDIR => Self::NotRegular,
            error => Self::System(error),
        }
    }
}

impl From<UnsafeDir> for StoreError {
    fn from(error: UnsafeDir) -> Self {
        match error {
            UnsafeDir::NotDirectory => Self::NotRegular,
            UnsafeDir::ForeignOwner { owner } => Self::WrongOwner { owner, user: rustix::process::geteuid().as_raw() },
            UnsafeDir::OpenToOthers { mode } => Self::NotPrivate { mode },
            UnsafeDir::Io(kind) => Self::Io(kind),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).unwrap_or(Errno::IO).into()
    }
}
