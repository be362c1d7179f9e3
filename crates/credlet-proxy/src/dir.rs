//! Where the sockets are: a directory that is this user's alone.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aws_lc_rs::digest::{Context, SHA256};
use credlet_api::exec::Cluster;
use credlet_core::{Env, OsError};
use jiff::{SignedDuration, Timestamp};

/// The name under which everything of ours lies.
const APP: &str = "credlet";

/// The directory of one proxy: its sockets and its locks.
///
/// | file | what it is |
/// |---|---|
/// | `s.sock` | where requests go in |
/// | `c.sock` | where the proxy is asked about itself ([`Control`](crate::server::Control)) |
/// | `p.sock` | where other proxies of the same port hand over what came to them and is for this one |
/// | `log` | what the proxy has to say, and `log.1` what it said before |
/// | `daemon.lock` | held by the one proxy that may put sockets here |
/// | `start.lock` | held by whoever is starting one |
/// | `config` | a kubeconfig for one command, if the proxy is there for that |
///
/// The names are short because the path of a socket may have no more than 103 bytes on macOS and 107 on Linux. Nothing of
/// it outlives the proxy but its log, for a day.
///
/// **Who may remove what.** Everything by whoever holds both locks: then nobody serves here, and nobody is about to. Whoever
/// waited for a lock meanwhile has one that is not in its place any more, and begins anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    path: PathBuf,
}

impl Dir {
    /// Where the directories of all proxies of this user are: below `$XDG_RUNTIME_DIR` if that is this user's own, else
    /// below `/run` for root if there is one, else below the directory for temporary files.
    pub fn all(env: &dyn Env) -> PathBuf {
        let euid = rustix::process::geteuid().as_raw();
        let set = |name| env.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        // After `sudo -E` it is somebody else's, who could put another directory in the place of ours.
        let ours = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == euid);
        match set("XDG_RUNTIME_DIR").filter(ours) {
            Some(runtime) => runtime.join(APP),
            None if euid == 0 && Path::new("/run").is_dir() => Path::new("/run").join(APP),
            None => set("TMPDIR").unwrap_or_else(|| "/tmp".into()).join(format!("{APP}-{euid}")),
        }
    }

    /// The directory of the daemon with this [`identity`].
    ///
    /// # Errors
    /// See [`Dir::open`].
    pub fn of_daemon(env: &dyn Env, identity: &str) -> Result<Self, DirError> {
        let all = Self::open(Self::all(env))?;
        Self::open(all.path.join(identity))
    }

    /// A directory for this process alone: that of a plugin which is itself the proxy.
    ///
    /// # Errors
    /// See [`Dir::open`].
    pub fn of_this_process(env: &dyn Env) -> Result<Self, DirError> {
        let all = Self::open(Self::all(env))?;
        Self::open(all.path.join(format!("{PROCESS}{}", std::process::id())))
    }

    /// Removes what proxies left behind that were killed, and the logs of those that ended a day ago.
    pub fn sweep(env: &dyn Env, now: Timestamp) {
        const LOG: SignedDuration = SignedDuration::from_hours(24);
        let kept_since = SystemTime::from(now.saturating_sub(LOG).unwrap_or(now));
        let is_old = |log: &Path| {
            let found = fs::symlink_metadata(log);
            found.is_ok_and(|log| log.len() == 0 || log.modified().is_ok_and(|written| written < kept_since))
        };
        for dir in Self::list(env).into_iter().filter(Self::is_named_by_us) {
            let Some(_locks) = dir.both_locks() else { continue };
            if dir.is_of_one_process() || is_old(&dir.log()) {
                dir.remove_logs();
            }
            dir.remove_all_but_logs();
        }
        Self { path: Self::all(env) }.remove_claims();
    }

    /// All directories of proxies, served or not.
    pub fn list(env: &dyn Env) -> Vec<Self> {
        Self { path: Self::all(env) }.others().collect()
    }

    /// The directory at `path`, made if it is missing (but not its parents).
    ///
    /// # Errors
    /// When it is not a directory, is somebody else's, or is open to others. It is not repaired then: who knows what
    /// was done to it before.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DirError> {
        let path = path.into();
        loop {
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(DirError::Unusable { path, reason: error.into() });
                }
                _ => {}
            }
            match check(&path) {
                // It was swept between the two.
                Err(DirError::Unusable { reason, .. }) if reason.is_not_found() => {}
                checked => return checked.map(|()| Self { path }),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where requests go in.
    pub fn socket(&self) -> PathBuf {
        self.path.join("s.sock")
    }

    /// Where the proxy is asked about itself.
    pub fn control(&self) -> PathBuf {
        self.path.join("c.sock")
    }

    /// Where other proxies of the same port hand over what is for this one.
    pub(crate) fn beside(&self) -> PathBuf {
        self.path.join("p.sock")
    }

    /// The directory that this one and its neighbours lie in, if that is this user's alone and they can tell each other by
    /// their names.
    pub(crate) fn street(&self) -> Option<Self> {
        let path = self.path.parent()?.to_owned();
        (check(&path).is_ok() && !self.name().is_empty()).then_some(Self { path })
    }

    /// What it is called there. Empty: something that is not text.
    pub(crate) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The one of this name in this directory, wherever that came from. `None`: it would be elsewhere.
    pub(crate) fn neighbour(&self, name: &str) -> Option<Self> {
        let mut parts = Path::new(name).components();
        let is_one = matches!(parts.next(), Some(std::path::Component::Normal(part)) if part == name);
        is_one.then(|| Self { path: self.path.join(name) })
    }

    /// Where it writes what it has to say, if it does.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Whether there is a proxy that has not begun to end.
    pub fn is_served(&self) -> bool {
        let Ok(lock) = self.open_lock("daemon.lock", false) else { return false };
        matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// A lock file, which is not locked yet. If somebody has swept the directory, it is made again.
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

    /// Whether a lock file that was locked is still the one by this name. If not, whoever comes next locks another.
    pub(crate) fn is_in_place(&self, name: &str, file: &File) -> bool {
        let inode = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
        let ours = inode(file.metadata());
        ours.is_some() && inode(fs::symlink_metadata(self.path.join(name))) == ours
    }

    fn open_lock(&self, name: &str, create: bool) -> io::Result<File> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(create).truncate(false).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        options.open(self.path.join(name))
    }

    /// `None`: somebody serves here, or is about to.
    fn both_locks(&self) -> Option<[File; 2]> {
        let lock = |name| {
            let file = self.open_lock(name, true).ok()?;
            (file.try_lock().is_ok() && self.is_in_place(name, &file)).then_some(file)
        };
        Some([lock("start.lock")?, lock("daemon.lock")?])
    }

    /// By the holder of the one lock at its end: takes away all that was put here, unless somebody is about to come. The
    /// log stays for a while, but not that of one client's own proxy: there would be one for each command.
    pub(crate) fn leave(&self) {
        let starting = self.open_lock("start.lock", true);
        if starting.is_ok_and(|file| file.try_lock().is_ok() && self.is_in_place("start.lock", &file)) {
            if self.is_of_one_process() {
                self.remove_logs();
            }
            self.remove_all_but_logs();
        }
    }

    /// Takes away all that we put here, and the directory if nothing else is in it. By the holder of both locks: the one by
    /// which others come in goes last, for what is here afterwards is theirs.
    fn remove_all_but_logs(&self) {
        self.remove_drafts();
        for name in ["s.sock", "c.sock", "p.sock", "config", "start.lock", "daemon.lock"] {
            let _ = fs::remove_file(self.path.join(name));
        }
        let _ = fs::remove_dir(&self.path);
    }

    fn is_of_one_process(&self) -> bool {
        self.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PROCESS))
    }

    fn remove_logs(&self) {
        for name in ["log", "log.1"] {
            let _ = fs::remove_file(self.path.join(name));
        }
    }

    /// The file in this directory by which neighbours claim a port, each with a lock of its own.
    pub(crate) fn claim(port: u16) -> String {
        format!("{CLAIM}{port}")
    }

    /// Takes a lock file away that nobody else has locked.
    pub(crate) fn remove_unlocked(&self, name: &str, file: &File) {
        if file.try_lock().is_ok() && self.is_in_place(name, file) {
            let _ = fs::remove_file(self.path.join(name));
        }
    }

    /// Those of neighbours that were killed.
    fn remove_claims(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name =
                name.to_str().filter(|name| name.strip_prefix(CLAIM).is_some_and(|port| port.parse::<u16>().is_ok()));
            if let Some((name, Ok(file))) = name.map(|name| (name, self.open_lock(name, false))) {
                self.remove_unlocked(name, &file);
            }
        }
    }

    /// What a socket is called before somebody listens at it: as short as can be.
    pub(crate) fn draft(socket: &Path) -> PathBuf {
        socket.with_extension(std::process::id().to_string())
    }

    /// Takes away sockets that never got their name, because their proxy was killed before.
    pub(crate) fn remove_drafts(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| ["s.", "c.", "p."].iter().find_map(|of| name.strip_prefix(of)));
            if name.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// There may be others beside ours, in which all is somebody else's.
    fn is_named_by_us(&self) -> bool {
        let name = self.name();
        match name.strip_prefix(PROCESS) {
            Some(number) => !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()),
            None => name.len() == IDENTITY && name.bytes().all(|byte| byte.is_ascii_hexdigit()),
        }
    }

    /// What in this directory is one, too.
    fn others(&self) -> impl Iterator<Item = Self> + use<> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.map(|entry| Self { path: entry.path() }).filter(|dir| check(&dir.path).is_ok())
    }
}

/// Begins the name of a directory that is one process's own. An [`identity`] has no such beginning.
const PROCESS: &str = "process-";

/// Begins the name of a file by which a port is claimed.
const CLAIM: &str = "port-";

/// How long an [`identity`] is.
const IDENTITY: usize = 32;

fn check(path: &Path) -> Result<(), DirError> {
    let refused = |reason| Err(DirError::Refused { path: path.to_owned(), reason });
    // Not following: a link leads to where its owner likes.
    let found = fs::symlink_metadata(path)
        .map_err(|error| DirError::Unusable { path: path.to_owned(), reason: error.into() })?;
    if !found.is_dir() {
        return refused("is no directory");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refused("belongs to another user");
    }
    if found.mode() & 0o077 != 0 {
        return refused("is open to other users");
    }
    Ok(())
}

/// Why a directory cannot be used. Whoever owns it, or set the variable that led to it, must act.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirError {
    /// Others may have tampered with it.
    #[error("{} {reason}", credlet_api::visible(&path.to_string_lossy()))]
    Refused {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The system says no.
    #[error("{} cannot be used: {reason}", credlet_api::visible(&path.to_string_lossy()))]
    Unusable {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        reason: OsError,
    },
}

/// What a daemon is known by: 32 hexadecimal digits, the same for all who may share it. They may if they are the same
/// user, mean the same cluster, reach it by the same proxies, and agree in `own`: the command with its arguments,
/// variables that matter to the signer, and which build of the program it is, so that an upgrade starts a new daemon.
pub fn identity<'a>(cluster: &Cluster, env: &dyn Env, own: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hash = Context::new(&SHA256);
    // Each part with its length, so that no two lists of parts look alike.
    let mut add = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), value] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    };
    add("uid", &rustix::process::geteuid().as_raw().to_be_bytes());
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
    hash.finish().as_ref()[..IDENTITY / 2].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use credlet_core::FixedEnv;

    use super::*;

    #[test]
    fn a_directory_is_made_for_us_alone_and_found_again() {
        let runtime = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let dir = Dir::of_daemon(&env, "0123").unwrap();
        assert_eq!(dir.path(), runtime.path().join("credlet/0123"));
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(Dir::of_daemon(&env, "0123").unwrap(), dir);
        assert_eq!(Dir::list(&env), [dir]);
    }

    /// What was left here with nobody behind it: a day's logs apart, nothing is there afterwards.
    #[test]
    fn what_killed_proxies_left_is_swept_and_what_is_held_or_not_ours_stays() {
        let runtime = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let all = Dir::open(Dir::all(&env)).unwrap();
        let dir = |name: &str, files: &[&str]| {
            let dir = Dir::open(all.path().join(name)).unwrap();
            for name in files {
                fs::write(dir.path().join(name), "a line\n").unwrap();
            }
            dir
        };
        // The number may be another process's by now: this one's, say.
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
        let [_, claimed] = [Dir::claim(1), Dir::claim(2)].map(|name| all.lock_file(&name).unwrap());
        claimed.lock_shared().unwrap();
        let left = |dir: &Dir| -> Vec<_> {
            let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort_unstable();
            names
        };

        let now = Timestamp::try_from(fs::metadata(logged.log()).unwrap().modified().unwrap()).unwrap();
        Dir::sweep(&env, now);
        assert!(!process.path().exists() && !daemon.path().exists());
        assert_eq!(left(&logged), ["log", "log.1"]);
        assert!(!silent.path().exists());
        let claims: Vec<_> = left(&all).into_iter().filter(|name| name.to_string_lossy().starts_with("port")).collect();
        assert_eq!(claims, ["port-2", "port-no"]);
        for (dir, _lock) in [&served, &starting] {
            assert_eq!(left(dir), ["daemon.lock", "log", "s.sock", "start.lock"]);
        }
        assert_eq!(left(&foreign), ["config", "daemon.lock", "log"]);

        Dir::sweep(&env, now + SignedDuration::from_hours(25));
        assert!(!logged.path().exists());
        assert!(served.0.log().exists() && foreign.log().exists());
    }

    #[test]
    fn a_neighbour_is_in_the_same_directory_whatever_it_is_called() {
        let home = tempfile::tempdir().unwrap();
        let street = Dir::open(home.path().join("street")).unwrap();
        let dir = Dir::open(street.path().join("one")).unwrap();
        assert_eq!((dir.name(), dir.street()), ("one", Some(street.clone())));
        assert_eq!(street.neighbour("one"), Some(dir));
        for name in ["", ".", "..", "/", "/etc", "one/", "./one", "../street", "one/two", "one//"] {
            assert_eq!(street.neighbour(name), None, "{name}");
        }
        fs::set_permissions(street.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(street.neighbour("one").unwrap().street(), None, "others could come to live here");
    }

    #[test]
    fn a_directory_that_others_can_enter_and_a_link_to_a_good_one_are_refused_and_left_as_they_are() {
        let home = tempfile::tempdir().unwrap();
        for mode in [0o710, 0o701, 0o720, 0o777] {
            let open = home.path().join(format!("{mode:o}"));
            fs::create_dir(&open).unwrap();
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let error = Dir::open(&open).unwrap_err().to_string();
            assert!(error.ends_with("is open to other users"), "{error}");
            assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o777, mode);
        }
        let (good, link) = (home.path().join("good"), home.path().join("link"));
        Dir::open(&good).unwrap();
        std::os::unix::fs::symlink(&good, &link).unwrap();
        assert!(Dir::open(&link).unwrap_err().to_string().ends_with("is no directory"));
        fs::write(home.path().join("file"), "").unwrap();
        assert!(Dir::open(home.path().join("file")).unwrap_err().to_string().ends_with("is no directory"));
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        // Root's, or as root one that is given away.
        let home = tempfile::tempdir().unwrap();
        let foreign = if rustix::process::geteuid().is_root() {
            let path = home.path().join("given");
            fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            path
        } else {
            "/".into()
        };
        assert!(Dir::open(&foreign).unwrap_err().to_string().ends_with("belongs to another user"));
    }

    #[test]
    fn a_runtime_directory_that_is_not_ours_is_not_used() {
        let missing = FixedEnv::new([("XDG_RUNTIME_DIR", "/nowhere"), ("TMPDIR", "/var/tmp")]);
        let relative = FixedEnv::new([("XDG_RUNTIME_DIR", "."), ("TMPDIR", "/var/tmp")]);
        for env in [missing, relative] {
            let euid = rustix::process::geteuid();
            let expected = match euid.is_root() {
                true => PathBuf::from("/run/credlet"),
                false => PathBuf::from(format!("/var/tmp/credlet-{}", euid.as_raw())),
            };
            assert_eq!(Dir::all(&env), expected);
        }
    }

    #[test]
    fn whatever_matters_changes_the_identity_and_nothing_can_pass_for_something_else() {
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
