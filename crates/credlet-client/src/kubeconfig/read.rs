//! Reading a file that somebody else chose: never for ever, never without end.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

use zeroize::Zeroizing;

/// How many seconds a pipe may stay silent. A program that decrypts a kubeconfig may have to ask a server for the key.
const SILENCE: i64 = 10;

/// How many seconds a pipe may be without anybody at its other end.
const NOBODY: i64 = 1;

/// Certificates, keys and tokens are never larger.
pub(crate) const SMALL: u64 = 16_000_000;

/// Why a file could not be read. The texts go on where "the file …" begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// It is not there.
    #[error("does not exist")]
    Missing,
    /// It is not for us.
    #[error("may not be read by this user")]
    Denied,
    /// It is something else.
    #[error("is a directory")]
    Directory,
    /// A pipe whose other end is shut or silent.
    #[error("is a pipe into which nobody writes")]
    Silent,
    /// Larger than any honest one.
    #[error("is larger than {} MB", limit / 1_000_000)]
    TooLarge {
        /// How many bytes would have been fine.
        limit: u64,
    },
    /// Anything else that the system says.
    #[error("cannot be read: {0}")]
    Failed(io::ErrorKind),
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::IsADirectory => Self::Directory,
            other => Self::Failed(other),
        }
    }
}

/// Reads a whole file. What is not a file on a disk (`/dev/null`, the pipe of a shell's `<(…)`) works as well.
pub(crate) fn file(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, FileProblem> {
    let file = open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(FileProblem::Directory);
    }
    if about.len() > limit {
        return Err(FileProblem::TooLarge { limit });
    }
    // All the room at once: a vector that grows leaves copies behind.
    let room = usize::try_from(about.len()).unwrap_or_default() + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    let mut chunk = Zeroizing::new([0; 16 << 10]);
    let mut patient = is_pipe(&about);
    loop {
        match (&file).read(&mut chunk[..]) {
            Ok(0) if bytes.is_empty() && patient => {
                patient = false;
                wait(&file, NOBODY)?;
            }
            Ok(0) if bytes.is_empty() && is_pipe(&about) => return Err(FileProblem::Silent),
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !wait(&file, SILENCE)? => {
                return Err(FileProblem::Silent);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
            return Err(FileProblem::TooLarge { limit });
        }
    }
}

/// Opening a pipe waits for a writer, unless one asks for its not waiting at all.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(unix)]
fn is_pipe(about: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;

    about.file_type().is_fifo()
}

/// Whether something happened in time.
#[cfg(unix)]
fn wait(file: &File, seconds: i64) -> Result<bool, FileProblem> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&limit)) {
        Ok(0) => Ok(false),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

#[cfg(not(unix))]
fn wait(_: &File, _: i64) -> Result<bool, FileProblem> {
    Ok(false)
}
