//! Sockets that nobody finds before somebody listens behind them.

use std::fs::{self, File, TryLockError};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};
use tokio::sync::oneshot;

use super::ServeError;
use crate::dir::Dir;
use crate::endpoint::LONGEST_PATH;

/// How long a dying proxy may hold on to its place.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// The right to put sockets into a directory, for one process at a time and as long as it likes.
#[derive(Debug)]
pub(super) struct Place {
    dir: Dir,
    /// Freed by the kernel when this process ends, however it ends.
    _lock: File,
}

impl Place {
    /// # Errors
    /// [`ServeError::Taken`] when another proxy has it.
    pub(super) async fn take(dir: Dir) -> Result<Self, ServeError> {
        const LOCK: &str = "daemon.lock";
        let unable = |error: io::Error| ServeError::Listen { reason: error.into() };
        loop {
            let lock = dir.lock_file(LOCK)?;
            let lock = match lock.try_lock() {
                Ok(()) => lock,
                Err(TryLockError::Error(error)) => return Err(unable(error)),
                Err(TryLockError::WouldBlock) if UnixStream::connect(dir.control()).await.is_ok() => {
                    return Err(ServeError::Taken);
                }
                // Nobody listens, so its holder is about to go: a killed process takes a moment to let go of its locks.
                Err(TryLockError::WouldBlock) => {
                    turn(lock, LAST_BREATH).await.map_err(unable)?.ok_or(ServeError::Taken)?
                }
            };
            // One who went has taken it away.
            if dir.is_in_place(LOCK, &lock) {
                dir.remove_drafts();
                return Ok(Self { dir, _lock: lock });
            }
        }
    }

    /// Listens at `path`, in the place of whatever an earlier proxy has left there. The socket gets this name when it
    /// is ready: whoever finds it can connect.
    pub(super) fn listen(&self, path: PathBuf) -> Result<UnixListener, ServeError> {
        self.listen_for(path, 0o600, None)
    }

    /// The same, for whoever these permissions let in.
    pub(super) fn listen_for(&self, path: PathBuf, mode: u32, group: Option<u32>) -> Result<UnixListener, ServeError> {
        let draft = Dir::draft(&path);
        if path.as_os_str().len().max(draft.as_os_str().len()) > LONGEST_PATH {
            return Err(ServeError::PathTooLong { path, longest: LONGEST_PATH });
        }
        let listening = || -> io::Result<UnixListener> {
            let _ = fs::remove_file(&draft);
            let listener = std::os::unix::net::UnixListener::bind(&draft)?;
            // Nobody else can enter the directory, so it does not matter what it was until now.
            std::os::unix::fs::chown(&draft, None, group)?;
            fs::set_permissions(&draft, fs::Permissions::from_mode(mode))?;
            listener.set_nonblocking(true)?;
            fs::rename(&draft, &path)?;
            UnixListener::from_std(listener)
        };
        listening().map_err(|error| {
            let _ = fs::remove_file(&draft);
            ServeError::Listen { reason: error.into() }
        })
    }

    /// Takes the names of the sockets away. Those who know them already may still come in.
    pub(super) fn hide(&self) {
        let _ = fs::remove_file(self.dir.socket());
        let _ = fs::remove_file(self.dir.control());
        let _ = fs::remove_file(self.dir.beside());
    }

    /// Lets the next proxy in.
    pub(super) fn leave(self) {
        self.dir.leave();
    }
}

/// Waits for the lock of a file. The kernel wakes whoever is next; it is asked on a thread of its own, which the runtime
/// does not wait for at its end. `None`: the limit is over. If the lock comes later, it is let go of at once.
pub(super) async fn turn(file: File, limit: Duration) -> io::Result<Option<File>> {
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

/// Listens at a port of 127.0.0.1 and nowhere else: alone, or with other processes of this user who share it, too.
pub(super) fn loopback(port: u16, is_shared: bool) -> Result<(TcpListener, u16), ServeError> {
    const WAITING: u32 = 1024;
    let listening = || {
        let socket = TcpSocket::new_v4()?;
        // Else connections that have ended would keep the port for a minute.
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(is_shared)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let listener = socket.listen(WAITING)?;
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

    /// One after the other serves, while others sweep: whoever has the place has it alone, and keeps its sockets.
    #[test]
    fn a_place_that_is_left_and_swept_all_the_time_has_one_holder_whose_sockets_stay() {
        let runtime = tempfile::tempdir().unwrap();
        let env = credlet_core::FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let (holders, left) = (AtomicUsize::new(0), AtomicUsize::new(3));
        let serve = || {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut served = 0;
            while served < 100 {
                let dir = Dir::of_daemon(&env, &"a".repeat(32)).unwrap();
                tokio.block_on(async {
                    let place = match Place::take(dir).await {
                        Err(ServeError::Taken) => return,
                        place => place.unwrap(),
                    };
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "there are two of them");
                    let _control = place.listen(place.dir.control()).unwrap();
                    std::thread::yield_now();
                    // Who was turned away has come as far as its queue, and may have filled it by now.
                    match UnixStream::connect(place.dir.control()).await {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        connected => drop(connected.unwrap()),
                    }
                    holders.fetch_sub(1, Ordering::SeqCst);
                    place.hide();
                    place.leave();
                    served += 1;
                });
            }
            left.fetch_sub(1, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            let servers = [scope.spawn(serve), scope.spawn(serve), scope.spawn(serve)];
            while left.load(Ordering::SeqCst) > 0 && servers.iter().any(|server| !server.is_finished()) {
                Dir::sweep(&env, jiff::Timestamp::UNIX_EPOCH);
            }
        });
        Dir::sweep(&env, jiff::Timestamp::UNIX_EPOCH);
        assert!(Dir::list(&env).is_empty(), "and nothing is left");
    }

    #[tokio::test]
    async fn a_socket_has_its_name_only_while_somebody_listens_behind_it_and_never_for_others() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::take(Dir::open(home.path().join("d")).unwrap()).await.unwrap();
        let path = place.dir.socket();
        // From the first on there is always one: each takes the place of the one before.
        let mut listeners = vec![place.listen(path.clone()).unwrap()];
        let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let caller = std::thread::spawn({
            let (over, calls, path) = (Arc::clone(&over), Arc::clone(&calls), path.clone());
            move || {
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
                    // Full queues are no concern of this test.
                    match Caller::connect(&path) {
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => panic!("{error}"),
                        _ => calls.fetch_add(1, Ordering::Relaxed),
                    };
                }
            }
        });
        while calls.load(Ordering::Relaxed) < 500 && !caller.is_finished() {
            // None is closed: somebody may be on the way to it.
            if listeners.len() < 200 {
                listeners.push(place.listen(path.clone()).unwrap());
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        over.store(true, Ordering::Relaxed);
        caller.join().unwrap();
        assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 2, "the socket and the lock, and no draft");
    }
}
