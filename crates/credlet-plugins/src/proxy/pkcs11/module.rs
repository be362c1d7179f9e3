//! Which library may be loaded.
//!
//! A PKCS#11 module is code that runs in our process with the PIN in its hands, and its path may come from a kubeconfig
//! that somebody else wrote. So it must be where only the machine's owner puts libraries, or on a list that the person
//! keeps: a full path on each line of `credlet/pkcs11-modules` in the configuration directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use credlet_core::Env;

use super::{Pkcs11Error, Uri};

/// Where the machine's owner puts libraries.
const SYSTEM: [&str; 7] =
    ["/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local/lib", "/usr/local/lib64", "/lib", "/lib64"];

/// The library that is named on the command line, or else in the URI, with all links followed.
///
/// # Errors
/// When none is named, it is not there, or it may not be loaded.
pub fn find(named: Option<&Path>, uri: &Uri, env: &dyn Env) -> Result<PathBuf, Pkcs11Error> {
    let path = match (named.or(uri.module_path.as_deref()), &uri.module_name) {
        (Some(path), _) => path.to_owned(),
        (None, Some(name)) => by_name(name)?,
        (None, None) => return Err(Pkcs11Error::NoModule),
    };
    let wrong = |reason: String| Pkcs11Error::Module { path: path.clone(), reason };
    if !path.is_absolute() {
        return Err(wrong("must be named by its full path".to_owned()));
    }
    let real = fs::canonicalize(&path).map_err(|error| wrong(format!("cannot be found ({})", error.kind())))?;
    if is_system(&real) || listed(&path, &real, env) {
        return Ok(real);
    }
    let list = list(env).map_or_else(|| "credlet/pkcs11-modules".to_owned(), |list| list.display().to_string());
    Err(wrong(format!(
        "is not where the system keeps its libraries; write its path on a line of {list} if you trust it"
    )))
}

/// In a system directory, owned by root, and nobody else may write it. The directories of the system are its owner's
/// business.
fn is_system(real: &Path) -> bool {
    let about = fs::metadata(real);
    SYSTEM.iter().any(|dir| real.starts_with(dir))
        && about.is_ok_and(|about| about.is_file() && about.uid() == 0 && about.mode() & 0o022 == 0)
}

fn listed(path: &Path, real: &Path, env: &dyn Env) -> bool {
    let text = list(env).and_then(|list| fs::read_to_string(list).ok()).unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| line.starts_with('/')).any(|line| Path::new(line) == path || Path::new(line) == real)
}

fn list(env: &dyn Env) -> Option<PathBuf> {
    let configured = env.var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let configured = configured.or_else(|| env.home_dir().map(|home| home.join(".config")));
    configured.map(|dir| dir.join("credlet/pkcs11-modules"))
}

/// `softhsm2` is `libsofthsm2.so` or `softhsm2.so`, in one of the places where modules are kept.
fn by_name(name: &str) -> Result<PathBuf, Pkcs11Error> {
    let multiarch = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let multiarch = multiarch.filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
    let roots: Vec<_> = SYSTEM.iter().map(PathBuf::from).chain(multiarch).collect();
    let files = [format!("lib{name}.so"), format!("{name}.so"), format!("{name}-pkcs11.so")];
    let dirs = roots.iter().flat_map(|root| ["", "pkcs11", "softhsm"].map(|dir| root.join(dir)));
    let mut places = dirs.flat_map(|dir| files.clone().map(|file| dir.join(file)));
    places.find(|path| path.is_file()).ok_or_else(|| Pkcs11Error::Module {
        path: name.into(),
        reason: "is in none of the places where the system keeps such libraries; name its full path".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use credlet_core::FixedEnv;

    use super::*;

    fn with_path(path: &Path) -> Uri {
        Uri { module_path: Some(path.to_owned()), ..Uri::default() }
    }

    #[test]
    fn a_library_from_anywhere_is_loaded_only_if_the_person_listed_it() {
        let dir = tempfile::tempdir().unwrap();
        let module = dir.path().canonicalize().unwrap().join("evil.so");
        fs::write(&module, "code").unwrap();
        let link = dir.path().canonicalize().unwrap().join("link.so");
        std::os::unix::fs::symlink(&module, &link).unwrap();
        let env = FixedEnv::new([("XDG_CONFIG_HOME", dir.path().to_str().unwrap())]);

        let error = find(None, &with_path(&module), &env).unwrap_err().to_string();
        assert!(error.contains("is not where the system keeps its libraries"), "{error}");
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
    fn what_cannot_be_a_library_is_said() {
        let env = FixedEnv::default();
        let wrong = |uri: &Uri, named: Option<&str>| find(named.map(Path::new), uri, &env).unwrap_err().to_string();
        assert!(wrong(&Uri::default(), None).contains("which PKCS#11 library"));
        assert!(wrong(&Uri::default(), Some("x.so")).contains("full path"));
        assert!(wrong(&with_path(Path::new("/nowhere/x.so")), None).contains("cannot be found"));
        // No file of the system's, although it is in its place.
        assert!(wrong(&with_path(Path::new("/usr/lib")), None).contains("is not where"));
        let name = Uri { module_name: Some("no-such-module".into()), ..Uri::default() };
        assert!(wrong(&name, None).contains("name its full path"));
    }
}
