//! Sockets between processes of one machine, with the identity of the peer: Unix sockets.
//!
//! A [`LocalListener`] appears at its path only once it accepts connections, with its final permissions. A client chooses how
//! much it trusts a path: [`LocalStream::connect_own`] and [`LocalStream::connect_trusted`] check the owners of directory,
//! socket and listener, [`LocalStream::connect`] checks nothing.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use credlet_api::escape_control_chars;
use rustix::fs::{AtFlags, Stat};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

use crate::fs::{FileAttributes, FileKind, is_trusted_owner};

/// Maximum length of a socket path in bytes: the size of `sun_path` without the terminating NUL.
pub const MAX_PATH_LEN: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Users that may connect to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketAccess {
    /// The effective user only: mode 0600.
    Private,
    /// Also the members of the group with this id: mode 0660.
    Group(u32),
}

impl SocketAccess {
    fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Group(_) => 0o660,
        }
    }

    fn group(self) -> Option<u32> {
        match self {
            Self::Private => None,
            Self::Group(group) => Some(group),
        }
    }

    /// Whether the socket at `path` belongs to the effective user and still has these permissions.
    pub fn is_set_on(self, path: &Path) -> bool {
        let own = rustix::process::geteuid().as_raw();
        fs::symlink_metadata(path).is_ok_and(|found| {
            let has_group = self.group().is_none_or(|group| found.gid() == group);
            found.uid() == own && has_group && found.mode() & 0o777 == self.mode()
        })
    }
}

/// Listening socket at a path. Dropping it does not remove the path.
#[derive(Debug)]
pub struct LocalListener(UnixListener);

impl LocalListener {
    /// Listens at `path`, replacing a socket that exists there. The socket is created at `temporary`, in the same directory,
    /// and renamed when it listens and has its permissions, so that clients that find it can connect. Until then its
    /// permissions depend on the umask, so the directory must admit only users that may connect.
    ///
    /// # Errors
    /// Fails if the socket cannot be created, for example because a path is longer than [`MAX_PATH_LEN`], or if the user is not
    /// a member of the group. The socket at `path` then stays.
    pub fn bind(path: &Path, temporary: &Path, access: SocketAccess) -> io::Result<Self> {
        let bind = || {
            let _ = fs::remove_file(temporary);
            let listener = std::os::unix::net::UnixListener::bind(temporary)?;
            std::os::unix::fs::chown(temporary, None, access.group())?;
            fs::set_permissions(temporary, fs::Permissions::from_mode(access.mode()))?;
            listener.set_nonblocking(true)?;
            fs::rename(temporary, path)?;
            UnixListener::from_std(listener)
        };
        bind().map(Self).inspect_err(|_| {
            let _ = fs::remove_file(temporary);
        })
    }

    /// Accepts a connection. Cancel safe.
    ///
    /// # Errors
    /// Fails in particular if the process has too many open files.
    pub async fn accept(&self) -> io::Result<LocalStream> {
        self.0.accept().await.map(|(stream, _)| LocalStream(stream))
    }
}

/// The process at the other end of a connection, as the kernel recorded it when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Effective user id.
    pub user: u32,
    /// Effective group id.
    pub group: u32,
    /// Process id, for messages only: it may have been reused. `None` if the system does not report it.
    pub process: Option<u32>,
}

/// A connection between processes of this machine.
#[derive(Debug)]
pub struct LocalStream(UnixStream);

impl LocalStream {
    /// Connects to the socket at `path` without checking its owner.
    ///
    /// # Errors
    /// Fails if no process listens there. `WouldBlock` if the listener's backlog is full.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).await.map(Self)
    }

    /// Connects to a socket that belongs to the effective user, in a directory of this user, and on which this user or root
    /// listens.
    ///
    /// # Errors
    /// `PermissionDenied` if socket, directory or listener belong to another user, else the error of `connect`.
    pub async fn connect_own(path: &Path) -> io::Result<Self> {
        let foreign = || io::Error::from(io::ErrorKind::PermissionDenied);
        let (dir, name) = (SocketDir::of(path)?, path.file_name().unwrap_or_default());
        let found = dir.entry(name)?;
        if found.kind != FileKind::Socket || !found.is_own() || !dir.about()?.is_own() {
            return Err(foreign());
        }
        let stream = Self::connect(&dir.address(name)).await?;
        if is_trusted_owner(stream.peer()?.user) { Ok(stream) } else { Err(foreign()) }
    }

    /// Connects to a socket that only the effective user or root can have created and on which one of them listens. Waits while
    /// the listener's backlog is full; the caller applies a timeout.
    ///
    /// Root may share a socket with a group: the group may search the directory and use the socket, but only root can have
    /// created it. A socket that another user shares is rejected, because its listener sees every request.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_trusted(path: &Path) -> Result<Self, ConnectError> {
        let socket = CheckedSocket::new(path)?;
        let connected = connect_with_backoff(|| Self::connect(&socket.address)).await;
        let stream = connected.map_err(ConnectError::Io)?;
        match stream.peer() {
            Ok(peer) if is_trusted_owner(peer.user) => Ok(stream),
            Ok(_) => Err(rejected(path, "has a listener of another user")),
            Err(error) => Err(rejected(path, &format!("has an unknown listener: {error}"))),
        }
    }

    /// Returns a pair of connected streams.
    ///
    /// # Errors
    /// Fails if the process has too many open files.
    pub fn pair() -> io::Result<(Self, Self)> {
        UnixStream::pair().map(|(one, other)| (Self(one), Self(other)))
    }

    /// Returns the process at the other end.
    ///
    /// # Errors
    /// Fails if the system cannot tell.
    pub fn peer(&self) -> io::Result<PeerIdentity> {
        let peer = self.0.peer_cred()?;
        let process = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        Ok(PeerIdentity { user: peer.uid(), group: peer.gid(), process })
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Error of [`LocalStream::connect_trusted`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The socket or its directory does not exist.
    #[error("the socket does not exist")]
    Missing(#[source] io::Error),
    /// The reason why the socket must not be used, after its path.
    #[error("{0}")]
    Unsafe(String),
    /// No process listens, or another error of the operating system.
    #[error("failed to connect to the socket")]
    Io(#[source] io::Error),
}

fn rejected(path: &Path, reason: &str) -> ConnectError {
    ConnectError::Unsafe(format!("{} {reason}", escape_control_chars(&path.to_string_lossy())))
}

/// Retries with backoff while the listener's backlog is full: `connect` on a Unix socket then fails at once with
/// `EAGAIN`. On macOS it fails with `ECONNREFUSED`, as it does without a listener, and the caller gets that error.
async fn connect_with_backoff<T, F: Future<Output = io::Result<T>>>(connect: impl Fn() -> F) -> io::Result<T> {
    let mut pause = Duration::from_millis(1);
    loop {
        match connect().await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(100));
            }
            connected => return connected,
        }
    }
}

/// A socket that passed the checks. The address is valid while this value lives.
#[derive(Debug)]
struct CheckedSocket {
    address: PathBuf,
    _dir: SocketDir,
}

impl CheckedSocket {
    /// Checks the socket and its directory. Only the owner can change the directory, and the connection goes through its
    /// open descriptor, so the result stays true.
    fn new(socket: &Path) -> Result<Self, ConnectError> {
        let (path, name) = (socket.parent().unwrap_or(Path::new("/")), socket.file_name().unwrap_or_default());
        let dir = match SocketDir::of(socket) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(rejected(path, "is not a directory"));
            }
            opened => opened.map_err(|error| unreadable(path, error))?,
        };
        let found = dir.about().map_err(|error| unreadable(path, error))?;
        if found.kind != FileKind::Directory {
            return Err(rejected(path, "is not a directory"));
        }
        check_private(path, found, 0o027)?;
        let found = dir.entry(name).map_err(|error| unreadable(socket, error))?;
        if found.kind != FileKind::Socket {
            return Err(rejected(socket, "is not a socket"));
        }
        check_private(socket, found, 0o007)?;
        Ok(Self { address: dir.address(name), _dir: dir })
    }
}

fn unreadable(path: &Path, error: io::Error) -> ConnectError {
    match error.kind() {
        io::ErrorKind::NotFound => ConnectError::Missing(error),
        _ => rejected(path, &format!("cannot be checked: {error}")),
    }
}

/// `never`: permissions that other users must not have even if root shares the socket with a group.
fn check_private(path: &Path, found: FileAttributes, never: u32) -> Result<(), ConnectError> {
    if !found.has_trusted_owner() {
        return Err(rejected(path, "belongs to another user"));
    }
    let never = if found.is_own() { 0o077 } else { never };
    let mode = found.mode & 0o777;
    match mode & never {
        0 => Ok(()),
        _ => Err(rejected(path, &format!("is open to other users (mode {mode:04o})"))),
    }
}

/// Directory that is checked through its open descriptor, so that the checked directory is the one connected to. Without
/// `O_PATH`, opening needs read permission, which a group may lack; such systems use the path.
#[derive(Debug)]
struct SocketDir {
    path: PathBuf,
    open: Option<OwnedFd>,
}

impl SocketDir {
    /// Opens the directory of this socket without following a symlink.
    ///
    /// # Errors
    /// `NotADirectory` if it is not a directory.
    fn of(socket: &Path) -> io::Result<Self> {
        let path = socket.parent().unwrap_or(Path::new("/")).to_owned();
        #[cfg(target_os = "linux")]
        let open = {
            use rustix::fs::{Mode, OFlags};
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Some(rustix::fs::open(&path, flags, Mode::empty())?)
        };
        #[cfg(not(target_os = "linux"))]
        let open = None;
        Ok(Self { path, open })
    }

    fn about(&self) -> io::Result<FileAttributes> {
        let stat = match &self.open {
            Some(dir) => rustix::fs::fstat(dir),
            None => rustix::fs::lstat(&self.path),
        };
        Ok(attributes(&stat?))
    }

    /// Attributes of the entry of this name. Symlinks are not followed.
    fn entry(&self, name: &OsStr) -> io::Result<FileAttributes> {
        let stat = match &self.open {
            Some(dir) => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
            None => rustix::fs::lstat(self.path.join(name)),
        };
        Ok(attributes(&stat?))
    }

    /// Path of this name through the open descriptor, which stays correct if the directory is replaced. Valid while
    /// `self` lives.
    fn address(&self, name: &OsStr) -> PathBuf {
        let by_descriptor = self.open.as_ref().map(|dir| PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())));
        // `/proc` may not be mounted.
        by_descriptor.filter(|path| path.exists()).unwrap_or_else(|| self.path.clone()).join(name)
    }
}

fn attributes(stat: &Stat) -> FileAttributes {
    FileAttributes::from_raw(stat.st_uid, stat.st_mode as _)
}

/// A connection between processes of this machine, for programs without an async runtime.
#[derive(Debug)]
pub struct BlockingLocalStream(std::os::unix::net::UnixStream);

impl BlockingLocalStream {
    /// Connects to the socket at `path` without checking its owner. Waits while the listener's backlog is full.
    ///
    /// # Errors
    /// Fails if no process listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        std::os::unix::net::UnixStream::connect(path).map(Self)
    }

    /// Closes the sending direction, so that the peer reads the end of the stream.
    ///
    /// # Errors
    /// Fails if the peer has closed the connection.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.0.shutdown(std::net::Shutdown::Write)
    }
}

impl io::Read for BlockingLocalStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl io::Write for BlockingLocalStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn private_dir() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn peers_know_each_other() {
        let dir = private_dir();
        let [path, temporary] = ["s.sock", "s.1"].map(|name| dir.path().join(name));
        let listener = LocalListener::bind(&path, &temporary, SocketAccess::Private).unwrap();
        let own = PeerIdentity {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            process: Some(std::process::id()),
        };
        let connects = [
            LocalStream::connect(&path).await.unwrap(),
            LocalStream::connect_own(&path).await.unwrap(),
            LocalStream::connect_trusted(&path).await.unwrap(),
        ];
        for mut client in connects {
            let mut accepted = listener.accept().await.unwrap();
            assert_eq!((client.peer().unwrap(), accepted.peer().unwrap()), (own, own));
            client.write_all(b"ping").await.unwrap();
            client.shutdown().await.unwrap();
            let mut read = Vec::new();
            accepted.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"ping");
        }
    }

    #[tokio::test]
    async fn listener_replaces_the_socket_with_its_permissions() {
        let dir = private_dir();
        let [path, temporary] = ["s.sock", "s.1"].map(|name| dir.path().join(name));
        let group = SocketAccess::Group(rustix::process::getegid().as_raw());
        for access in [SocketAccess::Private, group] {
            let _listener = LocalListener::bind(&path, &temporary, access).unwrap();
            assert!(access.is_set_on(&path) && !temporary.exists());
            set_mode(&path, 0o666);
            assert!(!access.is_set_on(&path));
        }
        assert!(!SocketAccess::Private.is_set_on(&temporary));
        let missing = dir.path().join("missing/s.sock");
        assert!(LocalListener::bind(&missing, &temporary, group).is_err());
        assert!(!temporary.exists() && path.exists());
    }

    #[tokio::test]
    async fn trusted_connect_rejects_open_and_other_files() {
        let dir = private_dir();
        let path = dir.path().join("s.sock");
        let reason = async |path: &Path| match LocalStream::connect_trusted(path).await {
            Err(ConnectError::Unsafe(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(matches!(LocalStream::connect_trusted(&path).await, Err(ConnectError::Missing(_))));
        let listener = LocalListener::bind(&path, &dir.path().join("s.1"), SocketAccess::Private).unwrap();
        set_mode(&path, 0o660);
        assert!(reason(&path).await.ends_with("s.sock is open to other users (mode 0660)"));
        set_mode(&path, 0o600);
        set_mode(dir.path(), 0o710);
        assert!(reason(&path).await.ends_with("is open to other users (mode 0710)"));
        set_mode(dir.path(), 0o700);
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(reason(&dir.path().join("file")).await.ends_with("file is not a socket"));
        assert_eq!(
            LocalStream::connect_own(&dir.path().join("file")).await.unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        assert!(reason(&dir.path().join("file/s.sock")).await.ends_with("file is not a directory"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(reason(&link.join("s.sock")).await.ends_with("link is not a directory"));
        drop(listener);
        assert!(matches!(LocalStream::connect_trusted(&path).await, Err(ConnectError::Io(_))));
    }

    #[tokio::test]
    async fn full_backlog_is_retried() {
        let attempts = std::cell::Cell::new(0);
        let connected = connect_with_backoff(|| async {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 3 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(attempts.get()) }
        });
        assert_eq!(connected.await.unwrap(), 3);
    }
}
