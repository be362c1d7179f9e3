//! Client side of the exec proxy: the lock file that signals that the client is alive, and the route to the proxy's
//! socket.
//!
//! [`ExecProxies`] passes the path of the lock file to the plugin, which returns the URL of a socket
//! ([`ProxyEndpoint`](crate::endpoint::ProxyEndpoint)). The route checks the owner of directory, socket and listener,
//! and uses TLS if the plugin returned a certificate authority. If the proxy has exited, `credlet-client` runs the
//! plugin again and retries the request on the new route. It also keeps a plugin alive that is the proxy itself.
//!
//! ```
//! use credlet_client::ClientOptions;
//! use credlet_http::CryptoBackend;
//! use credlet_proxy::client::ExecProxies;
//!
//! let mut options = ClientOptions::new(CryptoBackend::aws_lc_rs());
//! options.exec_proxy = ExecProxies::of_this_process().map(|proxies| proxies as _);
//! // A client with these options uses the exec proxy that its plugin returns.
//! ```

mod lock_file;
mod route;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use credlet_client::ExecProxy;
use credlet_exec::{Env, LockFile, LockFileError, PluginProxy, SystemEnv};
use credlet_http::{HttpError, Route};

use self::lock_file::ClientLockFile;
use self::route::ProxyRoute;
use crate::dir::{DirError, ProxyDir};

/// Environment variable that disables exec proxies if it is `false` or another false value.
pub const EXEC_PROXY_ENV: &str = "CLIENT_EXEC_PROXY";

/// Lock file and routes to exec proxies of one process.
///
/// The lock file is created when the first plugin is run. It is removed when the last client and the last connection
/// that use it are dropped.
#[derive(Debug)]
pub struct ExecProxies {
    /// Directory of the lock file.
    dir: Result<PathBuf, DirError>,
    /// The last one is in use. There are several only if another process removed a file that was in use.
    locks: Mutex<Vec<ClientLockFile>>,
}

impl ExecProxies {
    /// Uses a lock file in the runtime directory of `env`. Returns `None` if exec proxies are
    /// [disabled](EXEC_PROXY_ENV).
    pub fn from_env(env: &dyn Env) -> Option<Arc<Self>> {
        is_enabled(env).then(|| Arc::new(Self { dir: ProxyDir::all(env), locks: Mutex::default() }))
    }

    /// Returns the instance that all clients of this process share. Returns `None` if exec proxies are disabled.
    pub fn of_this_process() -> Option<Arc<Self>> {
        // Weak, so that the lock is released with its last user and not at exit.
        static ALL: Mutex<Weak<ExecProxies>> = Mutex::new(Weak::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_enabled(&SystemEnv) {
            return None;
        }
        all.upgrade().or_else(|| {
            let new = Self::from_env(&SystemEnv)?;
            *all = Arc::downgrade(&new);
            Some(new)
        })
    }
}

fn is_enabled(env: &dyn Env) -> bool {
    let switch = env.var(EXEC_PROXY_ENV).unwrap_or_default();
    !["0", "f", "false", "n", "no", "off"].iter().any(|off| switch.eq_ignore_ascii_case(off))
}

impl LockFile for ExecProxies {
    fn path(&self) -> Result<PathBuf, LockFileError> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.last().filter(|lock| lock.is_current()) {
            return Ok(lock.path().to_owned());
        }
        let dir = self.dir.clone().and_then(|dir| ProxyDir::create(&dir));
        let dir = dir.map_err(|error| LockFileError { reason: error.to_string() })?;
        lock_file::sweep(dir.path());
        let lock = ClientLockFile::new(dir.path())
            .map_err(|error| LockFileError { reason: format!("{}: {error}", dir.path().display()) })?;
        let path = lock.path().to_owned();
        locks.push(lock);
        Ok(path)
    }
}

impl ExecProxy for ExecProxies {
    fn route(self: Arc<Self>, proxy: &PluginProxy, identity: bool) -> Result<Arc<dyn Route>, HttpError> {
        let refused = |reason| HttpError::ExecProxy { reason };
        let route = ProxyRoute::new(self, proxy, identity).map_err(refused)?;
        Ok(Arc::new(route))
    }
}

#[cfg(test)]
mod tests {
    use credlet_exec::FixedEnv;

    use super::*;

    #[test]
    fn env_variable_disables_exec_proxies() {
        assert!(is_enabled(&FixedEnv::default()));
        for (value, on) in [("", true), ("1", true), ("true", true), ("True", true), ("off", false), ("0", false)] {
            assert_eq!(is_enabled(&FixedEnv::new([(EXEC_PROXY_ENV, value)])), on, "{value:?}");
        }
        assert!(ExecProxies::from_env(&FixedEnv::new([(EXEC_PROXY_ENV, "FALSE")])).is_none());
    }

    #[test]
    fn process_has_one_lock_file() {
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
        // Another process removed the file: the next path must exist.
        let lost = other.path().unwrap();
        std::fs::remove_file(&lost).unwrap();
        let found = other.path().unwrap();
        assert!(found != lost && found.exists());
    }

    #[test]
    fn unsafe_dir_yields_error_with_path() {
        use std::os::unix::fs::PermissionsExt as _;
        let runtime = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_RUNTIME_DIR", runtime.path())]);
        let dir = runtime.path().join("credlet");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = ExecProxies::from_env(&env).unwrap().path().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot create the lock file: {} is open to other users (mode 0755)", dir.display())
        );
    }
}
