//! The client half: the lock by which a proxy knows that we live, and the way into its socket.
//!
//! **The path of a request:** the plugin is told the lock file's path ([`ExecProxies`]) → it answers with the URL of a
//! socket ([`Endpoint`](crate::endpoint::Endpoint)) → the route looks at the directory, the socket and whoever listens
//! there, and speaks TLS with them if they gave a certificate authority → nobody there? The plugin is run again, and the
//! request goes to the new one. The last step is `credlet-client`'s, which also keeps a plugin alive that is itself the
//! proxy.
//!
//! ```
//! use credlet_client::ClientOptions;
//! use credlet_client::conn::Crypto;
//! use credlet_proxy::client::ExecProxies;
//!
//! let mut options = ClientOptions::new(Crypto::aws_lc_rs());
//! options.exec_proxy = ExecProxies::of_this_process().map(|proxies| proxies as _);
//! // A client with these options takes the way that its plugin says.
//! ```

mod check;
mod lock;
mod route;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use credlet_client::ExecProxy;
use credlet_client::conn::{Error, Route};
use credlet_core::{Env, LockFile, NoLockFile, Proxy, SystemEnv};

use self::lock::Locked;
use self::route::ProxyRoute;
use crate::dir::Dir;

/// The variable that switches exec proxies off: `false`, in any of the usual spellings.
pub const SWITCH: &str = "CLIENT_EXEC_PROXY";

/// Exec proxies and the ways into them, for one process: it has one lock file for all.
///
/// The file is made when the first plugin is run, and goes when the last one who has this is dropped: clients, and the
/// connections they made.
#[derive(Debug)]
pub struct ExecProxies {
    dir: PathBuf,
    /// The last one is in use. There are others only if somebody tidied the newest away.
    locks: Mutex<Vec<Locked>>,
}

impl ExecProxies {
    /// With a lock file in this environment's runtime directory. `None`: they are [switched](SWITCH) off.
    pub fn from_env(env: &dyn Env) -> Option<Arc<Self>> {
        is_on(env).then(|| Arc::new(Self { dir: Dir::all(env), locks: Mutex::default() }))
    }

    /// Those of this process, which all its clients share.
    pub fn of_this_process() -> Option<Arc<Self>> {
        // Weak, so that the lock goes with its last user and not with the process.
        static ALL: Mutex<Weak<ExecProxies>> = Mutex::new(Weak::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_on(&SystemEnv) {
            return None;
        }
        all.upgrade().or_else(|| {
            let new = Self::from_env(&SystemEnv)?;
            *all = Arc::downgrade(&new);
            Some(new)
        })
    }
}

fn is_on(env: &dyn Env) -> bool {
    let switch = env.var(SWITCH).unwrap_or_default();
    !["0", "f", "false", "n", "no", "off"].iter().any(|off| switch.eq_ignore_ascii_case(off))
}

impl LockFile for ExecProxies {
    fn path(&self) -> Result<PathBuf, NoLockFile> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.last().filter(|lock| lock.is_in_place()) {
            return Ok(lock.path().to_owned());
        }
        let dir = Dir::open(&self.dir).map_err(|error| NoLockFile { reason: error.to_string() })?;
        lock::sweep(dir.path());
        let lock = Locked::new(dir.path()).map_err(|error| NoLockFile {
            reason: format!("no file can be locked in {}: {error}", dir.path().display()),
        })?;
        let path = lock.path().to_owned();
        locks.push(lock);
        Ok(path)
    }
}

impl ExecProxy for ExecProxies {
    fn route(self: Arc<Self>, proxy: &Proxy, identity: bool) -> Result<Arc<dyn Route>, Error> {
        let refused = |reason| Error::ExecProxy { reason };
        let route = ProxyRoute::new(self, proxy, identity).map_err(refused)?;
        Ok(Arc::new(route))
    }
}

#[cfg(test)]
mod tests {
    use credlet_core::FixedEnv;

    use super::*;

    #[test]
    fn they_are_on_unless_somebody_says_no() {
        assert!(is_on(&FixedEnv::default()));
        for (value, on) in [("", true), ("1", true), ("true", true), ("True", true), ("off", false), ("0", false)] {
            assert_eq!(is_on(&FixedEnv::new([(SWITCH, value)])), on, "{value:?}");
        }
        assert!(ExecProxies::from_env(&FixedEnv::new([(SWITCH, "FALSE")])).is_none());
    }

    #[test]
    fn a_process_has_one_lock_file_and_it_goes_with_the_last_who_needs_it() {
        let runtime = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let proxies = ExecProxies::from_env(&env).unwrap();
        assert!(!runtime.path().join("credlet").exists(), "nothing is made before a plugin is run");
        let path = proxies.path().unwrap();
        assert_eq!(path.parent().unwrap(), runtime.path().join("credlet"));
        assert_eq!(proxies.path().unwrap(), path);
        let other = ExecProxies::from_env(&env).unwrap();
        assert_ne!(other.path().unwrap(), path, "as if it were another process");
        drop(proxies);
        assert!(!path.exists());
        // Somebody tidied up: a proxy that is told the path must find it.
        let lost = other.path().unwrap();
        std::fs::remove_file(&lost).unwrap();
        let found = other.path().unwrap();
        assert!(found != lost && found.exists());
    }

    #[test]
    fn without_a_directory_of_our_own_there_is_no_lock_file_and_the_error_says_where() {
        use std::os::unix::fs::PermissionsExt as _;
        let runtime = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let dir = runtime.path().join("credlet");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = ExecProxies::from_env(&env).unwrap().path().unwrap_err();
        assert_eq!(error.to_string(), format!("{} is open to other users", dir.display()));
    }
}
