//! Listening sockets that become visible only when they accept connections.

use std::fs::{self, File, TryLockError};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use credlet_platform::local_socket::{LocalListener, LocalStream, SocketAccess};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

use super::ServeError;
use crate::dir::ProxyDir;
use crate::endpoint::MAX_SOCKET_PATH;

/// Time for an exiting proxy to release the directory.
const DAEMON_EXIT_GRACE: Duration = Duration::from_secs(5);

/// Exclusive right of a process to create sockets in a directory.
#[derive(Debug)]
pub(super) struct OwnedDir {
    dir: ProxyDir,
    /// The kernel releases it when this process exits for any reason.
    _lock: File,
}

impl OwnedDir {
    /// # Errors
    /// [`ServeError::AlreadyRunning`] if another proxy holds the directory.
    pub(super) async fn acquire(dir: ProxyDir) -> Result<Self, ServeError> {
        const LOCK: &str = "daemon.lock";
        let listen_error = |error: io::Error| ServeError::Listen { reason: error.into() };
        loop {
            let lock = dir.lock_file(LOCK)?;
            let lock = match lock.try_lock() {
                Ok(()) => lock,
                Err(TryLockError::Error(error)) => return Err(listen_error(error)),
                Err(TryLockError::WouldBlock) if LocalStream::connect(&dir.control()).await.is_ok() => {
                    return Err(ServeError::AlreadyRunning);
                }
                // No listener, so the holder is exiting: a killed process releases its locks after a moment.
                Err(TryLockError::WouldBlock) => lock_with_timeout(lock, DAEMON_EXIT_GRACE)
                    .await
                    .map_err(listen_error)?
                    .ok_or(ServeError::AlreadyRunning)?,
            };
            // An exiting proxy may have removed the file.
            if dir.is_current(LOCK, &lock) {
                dir.remove_temp_sockets();
                return Ok(Self { dir, _lock: lock });
            }
        }
    }

    /// Listens on `path`, replacing the socket of an earlier proxy. The socket is renamed to `path` once it listens, so
    /// that clients that find it can connect.
    pub(super) fn listen(&self, path: PathBuf) -> Result<LocalListener, ServeError> {
        self.listen_with_access(path, SocketAccess::Private)
    }

    /// Like [`listen`](Self::listen), with these permissions.
    pub(super) fn listen_with_access(&self, path: PathBuf, access: SocketAccess) -> Result<LocalListener, ServeError> {
        let temp_path = ProxyDir::temp_socket_path(&path);
        if path.as_os_str().len().max(temp_path.as_os_str().len()) > MAX_SOCKET_PATH {
            return Err(ServeError::PathTooLong { path, longest: MAX_SOCKET_PATH });
        }
        LocalListener::bind(&path, &temp_path, access).map_err(|error| ServeError::Listen { reason: error.into() })
    }

    /// Removes the names of the sockets. Clients that have already connected stay in the backlog.
    pub(super) fn unlink(&self) {
        let _ = fs::remove_file(self.dir.socket());
        let _ = fs::remove_file(self.dir.control());
        let _ = fs::remove_file(self.dir.handover_socket());
    }

    /// Releases the directory for the next proxy.
    pub(super) fn release(self) {
        self.dir.release();
    }
}

/// Waits for the lock of a file, in a detached thread that does not delay the shutdown of the runtime. Returns `None`
/// after `limit`; a lock that is acquired later is released at once.
pub(super) async fn lock_with_timeout(file: File, limit: Duration) -> io::Result<Option<File>> {
    let (give, take) = oneshot::channel();
    std::thread::Builder::new().name("lock".into()).stack_size(64 << 10).spawn(move || {
        let locked = file.lock();
        let _ = give.send(locked.map(|()| file));
    })?;
    match tokio::time::timeout(limit, take).await {
        Ok(Ok(locked)) => locked.map(Some),
        _ => Ok(None),
    }
}

/// Listens on a port of 127.0.0.1, exclusively or shared with other processes of this user.
pub(super) fn loopback(port: u16, is_shared: bool) -> Result<(TcpListener, u16), ServeError> {
    const BACKLOG: u32 = 1024;
    let listening = || {
        let socket = TcpSocket::new_v4()?;
        // Otherwise closed connections in TIME_WAIT would block the port for a minute.
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(is_shared)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let listener = socket.listen(BACKLOG)?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    listening().map_err(|error: io::Error| ServeError::Port { port, reason: error.into() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixStream as Caller;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// Proxies start and exit while others sweep. The holder of the directory is alone and keeps its sockets.
    #[test]
    fn directory_has_one_owner_under_churn() {
        let runtime = tempfile::tempdir().unwrap();
        let env = credlet_exec::FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let (holders, left) = (AtomicUsize::new(0), AtomicUsize::new(3));
        let serve = || {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut served = 0;
            while served < 100 {
                let dir = ProxyDir::of_daemon(&env, &"a".repeat(32)).unwrap();
                tokio.block_on(async {
                    let owned_dir = match OwnedDir::acquire(dir).await {
                        Err(ServeError::AlreadyRunning) => return,
                        owned_dir => owned_dir.unwrap(),
                    };
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "there are two of them");
                    let _control = owned_dir.listen(owned_dir.dir.control()).unwrap();
                    std::thread::yield_now();
                    // A rejected process has connected to the control socket and may have filled its backlog.
                    match LocalStream::connect(&owned_dir.dir.control()).await {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        connected => drop(connected.unwrap()),
                    }
                    holders.fetch_sub(1, Ordering::SeqCst);
                    owned_dir.unlink();
                    owned_dir.release();
                    served += 1;
                });
            }
            left.fetch_sub(1, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            let servers = [scope.spawn(serve), scope.spawn(serve), scope.spawn(serve)];
            while left.load(Ordering::SeqCst) > 0 && servers.iter().any(|server| !server.is_finished()) {
                ProxyDir::sweep(&env, jiff::Timestamp::UNIX_EPOCH);
            }
        });
        ProxyDir::sweep(&env, jiff::Timestamp::UNIX_EPOCH);
        assert!(ProxyDir::list(&env).is_empty(), "and nothing is left");
    }

    #[tokio::test]
    async fn socket_is_visible_only_while_listening() {
        let home = tempfile::tempdir().unwrap();
        let owned_dir = OwnedDir::acquire(ProxyDir::open(home.path().join("d")).unwrap()).await.unwrap();
        let path = owned_dir.dir.socket();
        // From the first one on there is always a proxy: each replaces the previous one.
        let mut listeners = vec![owned_dir.listen(path.clone()).unwrap()];
        let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let caller = std::thread::spawn({
            let (over, calls, path) = (Arc::clone(&over), Arc::clone(&calls), path.clone());
            move || {
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
                    // A full backlog does not matter here.
                    match Caller::connect(&path) {
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => panic!("{error}"),
                        _ => calls.fetch_add(1, Ordering::Relaxed),
                    };
                }
            }
        });
        while calls.load(Ordering::Relaxed) < 500 && !caller.is_finished() {
            // Sockets are not closed, because a client may be connecting.
            if listeners.len() < 200 {
                listeners.push(owned_dir.listen(path.clone()).unwrap());
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        over.store(true, Ordering::Relaxed);
        caller.join().unwrap();
        assert_eq!(fs::read_dir(owned_dir.dir.path()).unwrap().count(), 2, "the socket and the lock, and no temp_path");
    }
}
