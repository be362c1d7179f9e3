use std::io;

use rustix::io::Errno;

/// Why a store is of no use, or a file in it. Whoever has another way to the token takes that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A link could lead anywhere.
    #[error("it is a link, or something else that is not a plain file or directory")]
    NotPlain,
    /// Whoever owns it can change it.
    #[error("it belongs to user {owner}, and this is user {user}")]
    NotOurs {
        /// Whose it is.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// Others could have read or changed it.
    #[error("its mode is {mode:04o}, so others can read or change it")]
    NotPrivate {
        /// Its permissions.
        mode: u32,
    },
    /// No token is this large.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// How large it may be.
        limit: u64,
    },
    /// A name that would lead out of the directory.
    #[error("its name is not one of a file in this directory")]
    Name,
    /// Somebody else is at it for longer than we wait.
    #[error("it has been locked for too long{}", by(*.holder))]
    Locked {
        /// The process, if it has left its number.
        holder: Option<u32>,
    },
    /// The system says no.
    #[error("{0}")]
    System(Errno),
}

impl StoreError {
    /// Whether the file does not exist.
    pub(super) fn is_missing(self) -> bool {
        self == Self::System(Errno::NOENT)
    }
}

fn by(holder: Option<u32>) -> String {
    holder.map(|pid| format!(" by process {pid}")).unwrap_or_default()
}

impl From<Errno> for StoreError {
    fn from(error: Errno) -> Self {
        match error {
            // What O_NOFOLLOW says of a link, and O_DIRECTORY of anything but a directory.
            Errno::LOOP | Errno::NOTDIR => Self::NotPlain,
            error => Self::System(error),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).unwrap_or(Errno::IO).into()
    }
}
