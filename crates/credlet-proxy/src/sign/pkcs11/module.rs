//! Finds the PKCS#11 library and checks that it may be loaded.
//!
//! A PKCS#11 module is code that runs in this process with access to the PIN, and a kubeconfig may choose its path. So it
//! must be in a directory for system libraries and owned by root, or on the user's list: `credlet/pkcs11-modules` in the
//! configuration directory, one absolute path per line ([`UserList`]).

use std::fs;
use std::path::{Path, PathBuf};

use credlet_exec::{Env, UserList};
use credlet_platform::fs::is_system_file;

use super::{Pkcs11Error, Pkcs11Uri};

/// Directories for system libraries.
const SYSTEM_DIRS: [&str; 7] =
    ["/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local/lib", "/usr/local/lib64", "/lib", "/lib64"];

/// Returns the library that is named on the command line, or else in the URI, with all links resolved.
///
/// # Errors
/// When none is named, it does not exist, or it may not be loaded.
pub fn find(named: Option<&Path>, uri: &Pkcs11Uri, env: &dyn Env) -> Result<PathBuf, Pkcs11Error> {
    let path = match (named.or(uri.module_path.as_deref()), &uri.module_name) {
        (Some(path), _) => path.to_owned(),
        (None, Some(name)) => by_name(name)?,
        (None, None) => return Err(Pkcs11Error::NoModule),
    };
    let denied = |reason: String| Pkcs11Error::Module { path: path.clone(), reason };
    if !path.is_absolute() {
        return Err(denied("must be an absolute path".to_owned()));
    }
    let real = fs::canonicalize(&path).map_err(|error| denied(format!("not found: {}", error.kind())))?;
    if is_system(&real) {
        return Ok(real);
    }
    let lists = UserList::load("pkcs11-modules", env).map_err(|error| denied(error.to_string()))?;
    // Only the first list grants permission: a kubeconfig may have selected the second.
    let list = lists.into_iter().next();
    let entries = list.as_ref().and_then(|list| list.entries.as_deref()).unwrap_or_default();
    if entries.iter().map(Path::new).any(|entry| entry.is_absolute() && (entry == path || entry == real)) {
        return Ok(real);
    }
    let list = list.map_or_else(|| "credlet/pkcs11-modules".to_owned(), |list| list.path.display().to_string());
    Err(denied(format!("not in a directory for system libraries; add its path to {list} if you trust it")))
}

/// Returns whether the file is in a directory for system libraries, owned by root, and writable by root only.
fn is_system(real: &Path) -> bool {
    SYSTEM_DIRS.iter().any(|dir| real.starts_with(dir)) && is_system_file(real)
}

/// Searches the system directories for `lib{name}.so`, `{name}.so` and `{name}-pkcs11.so`.
fn by_name(name: &str) -> Result<PathBuf, Pkcs11Error> {
    let multiarch = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let multiarch = multiarch.filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
    let roots: Vec<_> = SYSTEM_DIRS.iter().map(PathBuf::from).chain(multiarch).collect();
    let files = [format!("lib{name}.so"), format!("{name}.so"), format!("{name}-pkcs11.so")];
    let dirs = roots.iter().flat_map(|root| ["", "pkcs11", "softhsm"].map(|dir| root.join(dir)));
    let mut candidates = dirs.flat_map(|dir| files.clone().map(|file| dir.join(file)));
    candidates.find(|path| path.is_file()).ok_or_else(|| Pkcs11Error::Module {
        path: name.into(),
        reason: "not found in the directories for system libraries; name its absolute path".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use credlet_exec::FixedEnv;
    use credlet_platform::dirs::CONFIG_IN_HOME;

    use super::*;

    fn with_path(path: &Path) -> Pkcs11Uri {
        Pkcs11Uri { module_path: Some(path.to_owned()), ..Pkcs11Uri::default() }
    }

    #[test]
    fn loads_only_listed_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let module = dir.path().canonicalize().unwrap().join("evil.so");
        fs::write(&module, "code").unwrap();
        let link = dir.path().canonicalize().unwrap().join("link.so");
        std::os::unix::fs::symlink(&module, &link).unwrap();
        let env = FixedEnv::new([("XDG_CONFIG_HOME", dir.path().to_str().unwrap())]);

        let error = find(None, &with_path(&module), &env).unwrap_err().to_string();
        assert!(error.contains("not in a directory for system libraries"), "{error}");
        assert!(error.contains("credlet/pkcs11-modules"), "{error}");

        fs::create_dir(dir.path().join("credlet")).unwrap();
        let list = dir.path().join("credlet/pkcs11-modules");
        fs::write(&list, "# trusted\n/elsewhere.so\n").unwrap();
        assert!(find(None, &with_path(&module), &env).is_err());
        fs::write(&list, format!("{} # mine\n", module.display())).unwrap();
        assert_eq!(find(None, &with_path(&module), &env).unwrap(), module);
        assert_eq!(find(None, &with_path(&link), &env).unwrap(), module);
        assert_eq!(find(Some(&module), &with_path(Path::new("/nowhere.so")), &env).unwrap(), module);
    }

    #[test]
    fn kubeconfig_cannot_select_the_list() {
        let (account, evil) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let module = evil.path().canonicalize().unwrap().join("evil.so");
        fs::write(&module, "code").unwrap();
        let list = |dir: PathBuf| {
            fs::create_dir_all(dir.join("credlet")).unwrap();
            fs::write(dir.join("credlet/pkcs11-modules"), format!("{}\n", module.display())).unwrap();
        };
        list(evil.path().to_owned());
        list(evil.path().join(CONFIG_IN_HOME));
        for name in ["XDG_CONFIG_HOME", "HOME"] {
            let env = |vars: &[(&str, &Path)]| {
                let env = FixedEnv::new(vars.iter().copied().chain([(name, evil.path())]));
                find(None, &with_path(&module), &env.with_account_home(account.path()))
            };
            // Without KUBERNETES_EXEC_INFO the user has set the variables.
            assert_eq!(env(&[]).unwrap(), module);
            let error = env(&[("KUBERNETES_EXEC_INFO", Path::new("{}"))]).unwrap_err().to_string();
            let expected = account.path().join(CONFIG_IN_HOME).join("credlet/pkcs11-modules");
            assert!(error.contains(expected.to_str().unwrap()), "{error}");
        }
        list(account.path().join(CONFIG_IN_HOME));
        let env = FixedEnv::new([("KUBERNETES_EXEC_INFO", "{}")]).with_account_home(account.path());
        assert_eq!(find(None, &with_path(&module), &env).unwrap(), module);
    }

    #[test]
    fn unusable_list_allows_no_module() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let module = dir.path().canonicalize().unwrap().join("evil.so");
        fs::write(&module, "code").unwrap();
        fs::create_dir(dir.path().join("credlet")).unwrap();
        let list = dir.path().join("credlet/pkcs11-modules");
        fs::write(&list, format!("{}\n", module.display())).unwrap();
        fs::set_permissions(&list, fs::Permissions::from_mode(0o666)).unwrap();
        let env = FixedEnv::new([("XDG_CONFIG_HOME", dir.path())]);
        let error = find(None, &with_path(&module), &env).unwrap_err().to_string();
        assert!(error.contains("can be changed by other users"), "{error}");
    }

    #[test]
    fn reports_unusable_libraries() {
        let env = FixedEnv::default();
        let wrong =
            |uri: &Pkcs11Uri, named: Option<&str>| find(named.map(Path::new), uri, &env).unwrap_err().to_string();
        assert!(wrong(&Pkcs11Uri::default(), None).contains("missing PKCS#11 library"));
        assert!(wrong(&Pkcs11Uri::default(), Some("x.so")).contains("absolute path"));
        assert!(wrong(&with_path(Path::new("/nowhere/x.so")), None).contains("not found: "));
        // A directory, although owned by root.
        assert!(wrong(&with_path(Path::new("/usr/lib")), None).contains("not in a directory"));
        let name = Pkcs11Uri { module_name: Some("no-such-module".into()), ..Pkcs11Uri::default() };
        assert!(wrong(&name, None).contains("name its absolute path"));
    }
}
