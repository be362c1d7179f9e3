//! Private directories for the sockets and lock files of proxies.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_lc_rs::digest::{Context, SHA256};
use credlet_api::exec::Cluster;
use credlet_exec::{Env, OsError};
use credlet_platform::account::effective_user_id;
use credlet_platform::fs::{
    FileAttributes, FileKind, UnsafeDir, can_create_in, check_trusted_dir, create_private_dir, is_at_path,
    make_private_dir, open_private_dir, open_regular_no_follow,
};
use jiff::{SignedDuration, Timestamp};

use crate::endpoint::MAX_SOCKET_PATH;

/// Name of the per-user runtime directory.
const APP: &str = "credlet";

/// Directory of one proxy, with its sockets and lock files.
///
/// | file | content |
/// |---|---|
/// | `s.sock` | socket for API requests |
/// | `c.sock` | control socket, see [`ControlClient`](crate::server::ControlClient) |
/// | `p.sock` | socket on which other proxies of the same port hand over connections |
/// | `log` | log file; `log.1` is the previous one |
/// | `daemon.lock` | held by the proxy that may create sockets here |
/// | `start.lock` | held by a process that is starting a proxy |
/// | `config` | kubeconfig of a `credlet run` command |
///
/// The names are short because a socket path is limited to 103 bytes on macOS and 107 on Linux. A proxy removes all
/// files when it shuts down, except its log, which is removed after a day.
///
/// A process may remove the files while it holds both locks, because then no proxy is running or starting here. A
/// process that waited for a lock meanwhile holds a deleted file; it detects this and retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyDir {
    path: PathBuf,
}

impl ProxyDir {
    /// Returns the directory that contains the directories of all proxies of this user and the lock files of their
    /// clients. It is the first of these that is safe to use:
    ///
    /// 1. `$XDG_RUNTIME_DIR/credlet`, if the variable names a directory of this user that others cannot write;
    /// 2. `/run/credlet`, for root;
    /// 3. `$TMPDIR/credlet-UID`, or `/tmp/credlet-UID` if the variable is not set;
    /// 4. `~/.cache/credlet/run`, on macOS `~/Library/Caches/credlet/run`: there `$TMPDIR` is too long for socket paths.
    ///
    /// A location is safe if no other user can replace it or a directory above it, and if the socket paths in it are
    /// short enough. So another user cannot block this user's proxies by creating files in `/tmp`.
    ///
    /// # Errors
    /// If no location is safe, the error of the first one.
    pub fn all(env: &dyn Env) -> Result<PathBuf, DirError> {
        let mut first = None;
        for location in locations(env) {
            match location {
                Ok(path) => return Ok(path),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or(DirError::NoHome))
    }

    /// Returns the directory for sockets that are shared with a group: `/run/credlet-shared` for root, for other users
    /// the first safe one of `$TMPDIR/credlet-shared-UID`, `/tmp/credlet-shared-UID` and `~/.credlet-shared`.
    ///
    /// # Errors
    /// See [`ProxyDir::all`].
    pub fn shared(env: &dyn Env) -> Result<PathBuf, DirError> {
        let euid = effective_user_id();
        if euid == 0 {
            return below(Path::new("/run"), &format!("{APP}-shared"));
        }
        let name = format!("{APP}-shared-{euid}");
        below(&temporary(env), &name)
            .or_else(|error| below(Path::new("/tmp"), &name).map_err(|_| error))
            .or_else(|error| homes(env).find_map(|home| below(&home, ".credlet-shared").ok()).ok_or(error))
    }

    /// Opens the directory of [`ProxyDir::all`], or creates it.
    ///
    /// # Errors
    /// See [`ProxyDir::all`].
    pub fn open_all(env: &dyn Env) -> Result<Self, DirError> {
        Self::create(&Self::all(env)?)
    }

    /// Opens or creates the directory and its missing parents, mode 0700.
    pub(crate) fn create(path: &Path) -> Result<Self, DirError> {
        create_private_dir(path).map_err(|reason| DirError::Refused { path: path.to_owned(), reason })?;
        Ok(Self { path: path.to_owned() })
    }

    /// Opens or creates the directory of the daemon with this [`identity`].
    ///
    /// # Errors
    /// See [`ProxyDir::all`] and [`ProxyDir::open`].
    pub fn of_daemon(env: &dyn Env, identity: &str) -> Result<Self, DirError> {
        let all = Self::open_all(env)?;
        Self::open(all.path.join(identity))
    }

    /// Opens or creates a directory for this process, for a plugin that is the proxy itself.
    ///
    /// # Errors
    /// See [`ProxyDir::all`] and [`ProxyDir::open`].
    pub fn of_this_process(env: &dyn Env) -> Result<Self, DirError> {
        let all = Self::open_all(env)?;
        Self::open(all.path.join(format!("{PROCESS_PREFIX}{}", std::process::id())))
    }

    /// Removes the files of killed proxies, and logs that are older than a day.
    pub fn sweep(env: &dyn Env, now: Timestamp) {
        const LOG: SignedDuration = SignedDuration::from_hours(24);
        let kept_since = SystemTime::from(now.saturating_sub(LOG).unwrap_or(now));
        let is_old = |log: &Path| {
            let found = fs::symlink_metadata(log);
            found.is_ok_and(|log| log.len() == 0 || log.modified().is_ok_and(|written| written < kept_since))
        };
        for dir in Self::list(env).into_iter().filter(Self::has_proxy_name) {
            let Some(_locks) = dir.try_both_locks() else { continue };
            if dir.is_of_one_process() || is_old(&dir.log()) {
                dir.remove_logs();
            }
            dir.remove_all_but_logs();
        }
        for all in Self::in_use(env) {
            all.remove_stale_locks();
        }
    }

    /// Lists the directories of all proxies, running or not. Other users can influence which location in `/tmp` is
    /// chosen, so this lists all locations.
    pub fn list(env: &dyn Env) -> Vec<Self> {
        Self::in_use(env).flat_map(|all| all.subdirs()).collect()
    }

    /// The locations that exist.
    fn in_use(env: &dyn Env) -> impl Iterator<Item = Self> {
        let safe = locations(env).into_iter().flatten().filter(|path| open_private_dir(path).is_ok());
        safe.map(|path| Self { path })
    }

    /// Opens the directory at `path`, or creates it (but not its parents), mode 0700.
    ///
    /// # Errors
    /// If the path is not a directory, belongs to another user or is accessible to others. The mode is not corrected,
    /// because other users may already have created files there.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DirError> {
        let path = path.into();
        loop {
            if let Err(error) = make_private_dir(&path) {
                return Err(DirError::Unusable { path, reason: error.into() });
            }
            match open_private_dir(&path) {
                // Removed by another process between the two calls.
                Err(UnsafeDir::Io(io::ErrorKind::NotFound)) => {}
                Ok(_) => return Ok(Self { path }),
                Err(reason) => return Err(DirError::Refused { path, reason }),
            }
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the socket for API requests.
    pub fn socket(&self) -> PathBuf {
        self.path.join("s.sock")
    }

    /// Path of the control socket.
    pub fn control(&self) -> PathBuf {
        self.path.join("c.sock")
    }

    /// Path of the socket on which other proxies of the same port hand over connections.
    pub(crate) fn handover_socket(&self) -> PathBuf {
        self.path.join("p.sock")
    }

    /// Returns the parent directory, which contains the sibling daemons. `None` if the parent is not private or this
    /// directory's name is not UTF-8.
    pub(crate) fn parent_dir(&self) -> Option<Self> {
        let path = self.path.parent()?.to_owned();
        (open_private_dir(&path).is_ok() && !self.name().is_empty()).then_some(Self { path })
    }

    /// The last path component. Empty if it is not UTF-8.
    pub(crate) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The subdirectory of this name. The name is untrusted: `None` unless it is a single normal path component.
    pub(crate) fn sibling(&self, name: &str) -> Option<Self> {
        let mut parts = Path::new(name).components();
        let is_one = matches!(parts.next(), Some(std::path::Component::Normal(part)) if part == name);
        is_one.then(|| Self { path: self.path.join(name) })
    }

    /// Path of the log file.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Whether a proxy is running that has not begun to shut down.
    pub fn is_served(&self) -> bool {
        let Ok(lock) = self.open_lock("daemon.lock", false) else { return false };
        matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Opens or creates a lock file without locking it. Recreates the directory if it was removed.
    pub(crate) fn lock_file(&self, name: &str) -> Result<File, DirError> {
        loop {
            match self.open_lock(name, true) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => drop(Self::open(&self.path)?),
                Err(error) => {
                    return Err(DirError::Unusable { path: self.path.join(name), reason: error.into() });
                }
                Ok(file) => return Ok(file),
            }
        }
    }

    /// Whether `file` is still the file at this name. If it was removed, other processes lock a different file.
    pub(crate) fn is_current(&self, name: &str, file: &File) -> bool {
        is_at_path(file, &self.path.join(name))
    }

    /// Does not follow a symlink or block on a FIFO. The file type is checked after opening.
    fn open_lock(&self, name: &str, create: bool) -> io::Result<File> {
        let mut options = File::options();
        open_regular_no_follow(&self.path.join(name), options.read(true).write(true).create(create).truncate(false))
    }

    /// `None` if a proxy is running or starting here.
    fn try_both_locks(&self) -> Option<[File; 2]> {
        let lock = |name| {
            let file = self.open_lock(name, true).ok()?;
            (file.try_lock().is_ok() && self.is_current(name, &file)).then_some(file)
        };
        Some([lock("start.lock")?, lock("daemon.lock")?])
    }

    /// Removes all files at shutdown, unless another process is starting a proxy here. The caller holds `daemon.lock`.
    /// The log stays for a day, except in a directory of a single process: each command would leave one.
    pub(crate) fn release(&self) {
        let starting = self.open_lock("start.lock", true);
        if starting.is_ok_and(|file| file.try_lock().is_ok() && self.is_current("start.lock", &file)) {
            if self.is_of_one_process() {
                self.remove_logs();
            }
            self.remove_all_but_logs();
        }
    }

    /// Removes all files except logs, and then the directory if it is empty. The caller holds both locks. `daemon.lock`
    /// is removed last, because after that the directory belongs to the next proxy.
    fn remove_all_but_logs(&self) {
        self.remove_temp_sockets();
        for name in ["s.sock", "c.sock", "p.sock", "config", "start.lock", "daemon.lock"] {
            let _ = fs::remove_file(self.path.join(name));
        }
        let _ = fs::remove_dir(&self.path);
    }

    fn is_of_one_process(&self) -> bool {
        self.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PROCESS_PREFIX))
    }

    fn remove_logs(&self) {
        for name in ["log", "log.1"] {
            let _ = fs::remove_file(self.path.join(name));
        }
    }

    /// Name of the lock file of a port. The daemons that share the port hold shared locks on it.
    pub(crate) fn port_lock_name(port: u16) -> String {
        format!("{PORT_LOCK_PREFIX}{port}")
    }

    /// Removes a lock file unless another process has locked it.
    pub(crate) fn remove_unlocked(&self, name: &str, file: &File) {
        if file.try_lock().is_ok() && self.is_current(name, file) {
            let _ = fs::remove_file(self.path.join(name));
        }
    }

    /// Removes the port and token lock files of killed processes.
    fn remove_stale_locks(&self) {
        let is_claim = |name: &&str| {
            name.strip_prefix(PORT_LOCK_PREFIX).is_some_and(|port| port.parse::<u16>().is_ok())
                || name.strip_prefix(TOKEN_LOCK_PREFIX).is_some_and(|hash| hash.len() == IDENTITY_LEN)
        };
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().filter(is_claim);
            if let Some((name, Ok(file))) = name.map(|name| (name, self.open_lock(name, false))) {
                self.remove_unlocked(name, &file);
            }
        }
    }

    /// Temporary path of a socket until it listens. Short, because of the limit on socket paths.
    pub(crate) fn temp_socket_path(socket: &Path) -> PathBuf {
        socket.with_extension(std::process::id().to_string())
    }

    /// Removes temporary sockets of proxies that were killed before they renamed them.
    pub(crate) fn remove_temp_sockets(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| ["s.", "c.", "p."].iter().find_map(|of| name.strip_prefix(of)));
            if name.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Whether the name is one that proxies use. Other directories are left alone.
    fn has_proxy_name(&self) -> bool {
        let name = self.name();
        match name.strip_prefix(PROCESS_PREFIX) {
            Some(number) => !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()),
            None => name.len() == IDENTITY_LEN && name.bytes().all(|byte| byte.is_ascii_hexdigit()),
        }
    }

    /// The private directories in this one.
    fn subdirs(&self) -> impl Iterator<Item = Self> + use<> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.map(|entry| Self { path: entry.path() }).filter(|dir| open_private_dir(&dir.path).is_ok())
    }
}

/// Prefix of the directory of a single process. An [`identity`] never starts with it.
const PROCESS_PREFIX: &str = "process-";

/// Prefix of the lock file of a port.
const PORT_LOCK_PREFIX: &str = "port-";

/// Prefix of the lock file of a PKCS#11 token (`sign/pkcs11/lock.rs`).
const TOKEN_LOCK_PREFIX: &str = "token-";

/// Length of an [`identity`].
const IDENTITY_LEN: usize = 32;

/// Fallback for [`ProxyDir::all`] below the home directory.
const HOME_FALLBACK: &str = if cfg!(target_os = "macos") { "Library/Caches/credlet/run" } else { ".cache/credlet/run" };

/// Length of the longest socket path below [`ProxyDir::all`]: `/IDENTITY/s.PID`, the temporary path.
const MAX_SOCKET_SUFFIX: usize = "/".len() + IDENTITY_LEN + "/s.4294967295".len();

/// Candidates for [`ProxyDir::all`] in order, each with the reason if it is not safe. If the runtime directory or
/// `/run` is safe, it is the only candidate, because other users cannot influence it.
fn locations(env: &dyn Env) -> Vec<Result<PathBuf, DirError>> {
    let euid = effective_user_id();
    let mut found: Vec<_> = absolute(env, "XDG_RUNTIME_DIR").iter().map(|path| in_runtime_dir(path)).collect();
    if euid == 0 {
        found.push(below(Path::new("/run"), APP));
    }
    if let Some(safe) = found.iter().position(Result::is_ok) {
        return vec![found.swap_remove(safe)];
    }
    found.push(below(&temporary(env), &format!("{APP}-{euid}")));
    found.extend(homes(env).map(|home| below(&home, HOME_FALLBACK)));
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|location| location.as_ref().map_or(true, |path| seen.insert(path.clone())));
    found
}

fn absolute(env: &dyn Env, name: &str) -> Option<PathBuf> {
    env.var(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn temporary(env: &dyn Env) -> PathBuf {
    absolute(env, "TMPDIR").unwrap_or_else(|| "/tmp".into())
}

/// `$HOME` may belong to another user after `sudo` or `su`; the home directory of the account database does not.
fn homes(env: &dyn Env) -> impl Iterator<Item = PathBuf> {
    [env.home_dir(), env.account_home()].into_iter().flatten()
}

/// The XDG Base Directory Specification requires that `$XDG_RUNTIME_DIR` belongs to this user. After `sudo -E` it
/// belongs to another user.
fn in_runtime_dir(path: &Path) -> Result<PathBuf, DirError> {
    let refused = |reason| DirError::Refused { path: path.to_owned(), reason };
    let about = FileAttributes::at_target(path).map_err(|error| refused(error.into()))?;
    if !about.is_own() {
        return Err(refused(UnsafeDir::ForeignOwner { owner: about.owner }));
    }
    if about.is_writable_by_others() {
        return Err(refused(UnsafeDir::OpenToOthers { mode: about.mode }));
    }
    below(path, APP)
}

/// Returns `parent/name` with symlinks resolved, if no other user can replace it: existing parts belong to this user,
/// their parents to this user or root, and missing parts can be created.
fn below(parent: &Path, name: &str) -> Result<PathBuf, DirError> {
    let refused = |path: &Path, reason| DirError::Refused { path: path.to_owned(), reason };
    let parent = parent.canonicalize().map_err(|error| refused(parent, error.into()))?;
    let path = parent.join(name);
    match FileAttributes::at(&path) {
        Ok(about) if !about.is_own() => {
            return Err(refused(&path, UnsafeDir::ForeignOwner { owner: about.owner }));
        }
        Ok(about) if about.kind != FileKind::Directory => return Err(refused(&path, UnsafeDir::NotDirectory)),
        _ => {}
    }
    // Use the resolved path from here on, because another user may be able to change a symlink.
    let (existing, rest) = path
        .ancestors()
        .find_map(|part| Some((part.canonicalize().ok()?, path.strip_prefix(part).ok()?)))
        .ok_or_else(|| refused(&path, UnsafeDir::Io(io::ErrorKind::NotFound)))?;
    check_trusted_dir(&existing).map_err(|reason| refused(&existing, reason))?;
    let resolved = if rest.as_os_str().is_empty() { existing.clone() } else { existing.join(rest) };
    if resolved.as_os_str().len() + MAX_SOCKET_SUFFIX > MAX_SOCKET_PATH {
        return Err(DirError::TooLong { path: resolved, longest: MAX_SOCKET_PATH - MAX_SOCKET_SUFFIX });
    }
    if resolved != existing && !can_create_in(&existing) {
        return Err(refused(&existing, UnsafeDir::Io(io::ErrorKind::PermissionDenied)));
    }
    Ok(resolved)
}

/// A runtime directory that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirError {
    /// Another user owns the directory or could change it.
    #[error("{} {reason}", credlet_api::escape_control_chars(&path.to_string_lossy()))]
    Refused {
        /// Path of the directory.
        path: PathBuf,
        /// What makes it unsafe.
        reason: UnsafeDir,
    },
    /// The operating system returned an error.
    #[error("{} cannot be used: {reason}", credlet_api::escape_control_chars(&path.to_string_lossy()))]
    Unusable {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the operating system.
        reason: OsError,
    },
    /// Socket paths below it would be too long.
    #[error("{} is too long for socket paths: at most {longest} bytes are supported", credlet_api::escape_control_chars(&path.to_string_lossy()))]
    TooLong {
        /// Path of the directory.
        path: PathBuf,
        /// Limit in bytes.
        longest: usize,
    },
    /// No candidate directory exists.
    #[error("no directory for sockets found: XDG_RUNTIME_DIR, TMPDIR and the home directory cannot be used")]
    NoHome,
}

/// Returns the identity of a daemon, 32 hexadecimal digits. Clients with the same identity share a daemon: they have
/// the same user, cluster and upstream proxies and the same `own` values. `own` has the command line, the environment
/// variables that matter to the signer, and the build of the program, so that an upgrade starts a new daemon.
pub fn identity<'a>(cluster: &Cluster, env: &dyn Env, own: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = Context::new(&SHA256);
    // Prefix each part with its length, so that different lists never hash alike.
    let mut add = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), value] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    };
    add("uid", &effective_user_id().to_be_bytes());
    add("server", cluster.server.as_bytes());
    add("tls-server-name", cluster.tls_server_name.as_bytes());
    add("insecure-skip-tls-verify", &[cluster.insecure_skip_tls_verify.into()]);
    add("certificate-authority-data", &cluster.certificate_authority_data);
    add("proxy-url", cluster.proxy_url.expose().as_bytes());
    add("config", cluster.config.as_ref().map_or("", |config| config.as_json()).as_bytes());
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"] {
        add(name, env.var(name).unwrap_or_default().as_encoded_bytes());
    }
    for (name, value) in own {
        add(name, value);
    }
    credlet_api::hex(&hash.finish().as_ref()[..IDENTITY_LEN / 2])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use credlet_exec::FixedEnv;

    use super::*;

    #[test]
    fn directory_is_created_private() {
        let runtime = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let dir = ProxyDir::of_daemon(&env, "0123").unwrap();
        assert_eq!(dir.path(), runtime.path().join("credlet/0123"));
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(ProxyDir::of_daemon(&env, "0123").unwrap(), dir);
        assert_eq!(ProxyDir::list(&env), [dir]);
    }

    /// Nothing remains of an exited proxy except logs of the last day.
    #[test]
    fn sweep_removes_files_of_killed_proxies() {
        let runtime = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let all = ProxyDir::open(ProxyDir::all(&env).unwrap()).unwrap();
        let dir = |name: &str, files: &[&str]| {
            let dir = ProxyDir::open(all.path().join(name)).unwrap();
            for name in files {
                fs::write(dir.path().join(name), "a line\n").unwrap();
            }
            dir
        };
        // The process id may have been reused, for example by this process.
        let process = dir(&format!("process-{}", std::process::id()), &["s.2147483647", "c.sock", "daemon.lock"]);
        let daemon = dir(&"a".repeat(32), &["s.sock", "c.17", "daemon.lock", "start.lock", "config"]);
        let logged = dir(&"b".repeat(32), &["s.sock", "daemon.lock", "log", "log.1"]);
        let silent = dir(&"e".repeat(32), &["daemon.lock"]);
        fs::write(silent.log(), "").unwrap();
        let [served, starting] = [("c", "daemon.lock"), ("d", "start.lock")].map(|(name, lock)| {
            let dir = dir(&name.repeat(32), &["daemon.lock", "start.lock", "s.sock", "log"]);
            let lock = dir.lock_file(lock).unwrap();
            lock.lock().unwrap();
            (dir, lock)
        });
        let foreign = dir("others", &["daemon.lock", "config", "log"]);
        fs::write(all.path().join("port-no"), "").unwrap();
        let [_, claimed] =
            [ProxyDir::port_lock_name(1), ProxyDir::port_lock_name(2)].map(|name| all.lock_file(&name).unwrap());
        claimed.lock_shared().unwrap();
        let left = |dir: &ProxyDir| -> Vec<_> {
            let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort_unstable();
            names
        };

        let now = Timestamp::try_from(fs::metadata(logged.log()).unwrap().modified().unwrap()).unwrap();
        ProxyDir::sweep(&env, now);
        assert!(!process.path().exists() && !daemon.path().exists());
        assert_eq!(left(&logged), ["log", "log.1"]);
        assert!(!silent.path().exists());
        let claims: Vec<_> = left(&all).into_iter().filter(|name| name.to_string_lossy().starts_with("port")).collect();
        assert_eq!(claims, ["port-2", "port-no"]);
        for (dir, _lock) in [&served, &starting] {
            assert_eq!(left(dir), ["daemon.lock", "log", "s.sock", "start.lock"]);
        }
        assert_eq!(left(&foreign), ["config", "daemon.lock", "log"]);

        ProxyDir::sweep(&env, now + SignedDuration::from_hours(25));
        assert!(!logged.path().exists());
        assert!(served.0.log().exists() && foreign.log().exists());
    }

    #[test]
    fn sibling_name_cannot_leave_the_directory() {
        let home = tempfile::tempdir().unwrap();
        let parent_dir = ProxyDir::open(home.path().join("parent_dir")).unwrap();
        let dir = ProxyDir::open(parent_dir.path().join("one")).unwrap();
        assert_eq!((dir.name(), dir.parent_dir()), ("one", Some(parent_dir.clone())));
        assert_eq!(parent_dir.sibling("one"), Some(dir));
        for name in ["", ".", "..", "/", "/etc", "one/", "./one", "../parent_dir", "one/two", "one//"] {
            assert_eq!(parent_dir.sibling(name), None, "{name}");
        }
        fs::set_permissions(parent_dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(parent_dir.sibling("one").unwrap().parent_dir(), None, "others could come to live here");
    }

    #[test]
    fn open_mode_and_symlink_are_rejected() {
        let home = tempfile::tempdir().unwrap();
        for mode in [0o710, 0o701, 0o720, 0o777] {
            let open = home.path().join(format!("{mode:o}"));
            fs::create_dir(&open).unwrap();
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let error = ProxyDir::open(&open).unwrap_err().to_string();
            assert!(error.ends_with(&format!("is open to other users (mode {mode:04o})")), "{error}");
            assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o777, mode);
        }
        let (good, link) = (home.path().join("good"), home.path().join("link"));
        ProxyDir::open(&good).unwrap();
        std::os::unix::fs::symlink(&good, &link).unwrap();
        assert!(ProxyDir::open(&link).unwrap_err().to_string().ends_with("is not a directory"));
        fs::write(home.path().join("file"), "").unwrap();
        assert!(ProxyDir::open(home.path().join("file")).unwrap_err().to_string().ends_with("is not a directory"));
    }

    #[test]
    fn foreign_directory_is_rejected() {
        // Owned by root or, when running as root, changed to another owner.
        let home = tempfile::tempdir().unwrap();
        let foreign = if rustix::process::geteuid().is_root() {
            let path = home.path().join("given");
            fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            path
        } else {
            "/".into()
        };
        assert!(ProxyDir::open(&foreign).unwrap_err().to_string().contains("belongs to another user"));
    }

    /// Creates a directory with this mode.
    fn dir_with_mode(path: &Path, mode: u32) -> PathBuf {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        path.canonicalize().unwrap()
    }

    #[test]
    fn unusable_runtime_dir_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let [open, own] = [0o777, 0o700].map(|mode| dir_with_mode(&dir.path().join(format!("{mode:o}")), mode));
        let euid = rustix::process::geteuid();
        let expected = match euid.is_root() {
            true => PathBuf::from("/run/credlet"),
            false => own.join(format!("credlet-{}", euid.as_raw())),
        };
        for runtime in [Path::new("/nowhere"), Path::new("."), &open] {
            let env = FixedEnv::new([("XDG_RUNTIME_DIR", runtime), ("TMPDIR", &own)]);
            assert_eq!(ProxyDir::all(&env).unwrap(), expected, "{runtime:?}");
        }
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", &own)]);
        assert_eq!(ProxyDir::all(&env).unwrap(), own.join("credlet"));
    }

    /// The location without a runtime directory, as a user other than root sees it. Root uses `/run`.
    fn location(tmp: &Path, home: &Path) -> Result<PathBuf, DirError> {
        let euid = rustix::process::geteuid().as_raw();
        below(tmp, &format!("{APP}-{euid}")).or_else(|_| below(home, HOME_FALLBACK))
    }

    #[test]
    fn writable_tmpdir_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir_with_mode(&dir.path().join("home"), 0o700);
        let open = dir_with_mode(&dir.path().join("open"), 0o777);
        let beneath = dir_with_mode(&open.join("beneath"), 0o700);
        std::os::unix::fs::symlink(&open, dir.path().join("link")).unwrap();
        let link = dir.path().join("link/beneath");
        for tmp in [&open, &beneath, &link, &dir.path().join("missing")] {
            assert_eq!(location(tmp, &home).unwrap(), home.join(HOME_FALLBACK), "{tmp:?}");
        }
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        let name = format!("credlet-{}", rustix::process::geteuid().as_raw());
        assert_eq!(location(&open, &home).unwrap(), open.join(&name));
        // The resolved path is used, not the symlink in the variable.
        assert_eq!(location(&link, &home).unwrap(), beneath.join(&name));
        assert!(location(&dir.path().join("missing"), Path::new("/nowhere")).is_err());
    }

    #[test]
    fn taken_tmpdir_falls_back_to_home() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir_with_mode(&dir.path().join("home"), 0o700);
        let tmp = dir_with_mode(&dir.path().join("tmp"), 0o1777);
        let taken = tmp.join(format!("credlet-{}", rustix::process::geteuid().as_raw()));
        fs::write(&taken, "").unwrap();
        assert_eq!(location(&tmp, &home).unwrap(), home.join(HOME_FALLBACK));
        fs::remove_file(&taken).unwrap();
        std::os::unix::fs::symlink("/nowhere", &taken).unwrap();
        assert_eq!(location(&tmp, &home).unwrap(), home.join(HOME_FALLBACK));
        fs::remove_file(&taken).unwrap();
        fs::create_dir(&taken).unwrap();
        assert_eq!(location(&tmp, &home).unwrap(), taken);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&taken, Some(65534), None).unwrap();
            assert_eq!(location(&tmp, &home).unwrap(), home.join(HOME_FALLBACK));
            std::os::unix::fs::chown(&home, Some(65534), None).unwrap();
            assert!(location(&tmp, &home).is_err(), "nothing is created in another user's home");
        }
    }

    #[test]
    fn too_long_location_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir_with_mode(&dir.path().join("home"), 0o700);
        let long = dir_with_mode(&dir.path().join("x".repeat(MAX_SOCKET_PATH - MAX_SOCKET_SUFFIX)), 0o700);
        assert_eq!(location(&long, &home).unwrap(), home.join(HOME_FALLBACK));
        assert!(matches!(below(&long, APP), Err(DirError::TooLong { .. })));
        let made = ProxyDir::create(&home.join(HOME_FALLBACK)).unwrap();
        assert_eq!(fs::metadata(made.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn lists_proxies_in_all_locations() {
        let dir = tempfile::tempdir().unwrap();
        let [home, runtime, tmp] = ["home", "runtime", "tmp"].map(|name| dir_with_mode(&dir.path().join(name), 0o700));
        let env =
            |runtime: &Path| FixedEnv::new([("HOME", home.as_path()), ("XDG_RUNTIME_DIR", runtime), ("TMPDIR", &tmp)]);
        let euid = rustix::process::geteuid();
        let of = |all: &Path| {
            ProxyDir::create(all).unwrap();
            ProxyDir::open(all.join("a".repeat(32))).unwrap()
        };
        let [in_runtime, in_tmp, in_home] =
            [runtime.join(APP), tmp.join(format!("{APP}-{}", euid.as_raw())), home.join(HOME_FALLBACK)]
                .map(|all| of(&all));
        assert_eq!(ProxyDir::list(&env(&runtime)), [in_runtime]);
        // Another user may have created the name in `/tmp`. Root uses `/run`.
        if !euid.is_root() {
            assert_eq!(ProxyDir::list(&env(Path::new("/nowhere"))), [in_tmp, in_home]);
        }
    }

    #[test]
    fn identity_depends_on_every_input() {
        let none = FixedEnv::default();
        let cluster = Cluster { server: "https://a".into(), ..Cluster::default() };
        let plain = identity(&cluster, &none, [("command", b"x".as_slice())]);
        assert_eq!(plain.len(), 32);
        assert_eq!(plain, identity(&cluster, &none, [("command", b"x".as_slice())]));
        let other = Cluster { server: "https://b".into(), ..Cluster::default() };
        let named = Cluster { tls_server_name: "n".into(), ..cluster.clone() };
        let proxied = FixedEnv::new([("https_proxy", "http://p")]);
        let all = [
            plain,
            identity(&other, &none, [("command", b"x".as_slice())]),
            identity(&named, &none, [("command", b"x".as_slice())]),
            identity(&cluster, &proxied, [("command", b"x".as_slice())]),
            identity(&cluster, &none, [("command", b"y".as_slice())]),
            identity(&cluster, &none, [("comman", b"dx".as_slice())]),
            identity(&cluster, &none, [("command", b"x".as_slice()), ("", b"")]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
