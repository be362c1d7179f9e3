//! Lists in the user's configuration directory: `credlet/NAME`, one entry per line, `#` starts a comment.

use std::io;
use std::path::{Path, PathBuf};

use credlet_platform::dirs::{CONFIG_IN_HOME, config_dir};
use credlet_platform::fs::{self, ReadError};

use crate::{Env, is_plugin_run};

/// Size limit of a list in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// One file of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserList {
    /// Path of the file.
    pub path: PathBuf,
    /// Entries without comments and empty lines. `None`: the file does not exist.
    pub entries: Option<Vec<String>>,
}

impl UserList {
    /// Reads the files of the list `name`. Only the first one may grant a permission; the others can only restrict it.
    ///
    /// On the command line there is one file, below the user's [configuration directory](credlet_platform::dirs). In a
    /// [plugin run](is_plugin_run) the kubeconfig controls the variables for it. The first file is then below the home
    /// directory of the account database, and the file that the variables name is the second. A user without an entry in
    /// the account database has only the latter. The result is empty if there is no home directory.
    ///
    /// # Errors
    /// Fails if a file exists and cannot be read, or if other users can write to it.
    pub fn load(name: &str, env: &dyn Env) -> Result<Vec<Self>, UserListError> {
        paths(name, env).into_iter().map(Self::read).collect()
    }

    fn read(path: PathBuf) -> Result<Self, UserListError> {
        let text = match fs::read_trusted(&path, MAX_SIZE) {
            Err(ReadError::NotFound | ReadError::Io(io::ErrorKind::NotADirectory)) => {
                return Ok(Self { path, entries: None });
            }
            Err(reason) => return Err(UserListError { path, reason }),
            Ok(text) => text,
        };
        let Ok(text) = std::str::from_utf8(&text) else {
            return Err(UserListError { path, reason: ReadError::Io(io::ErrorKind::InvalidData) });
        };
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let entries = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Ok(Self { path, entries: Some(entries) })
    }
}

fn paths(name: &str, env: &dyn Env) -> Vec<PathBuf> {
    let configured = config_dir(env);
    let account = if is_plugin_run(env) { env.account_home().map(|home| home.join(CONFIG_IN_HOME)) } else { None };
    let mut paths: Vec<_> =
        account.into_iter().chain(configured).map(|dir| dir.join("credlet").join(Path::new(name))).collect();
    paths.dedup();
    paths
}

/// The file of a list cannot be used, so none of its entries applies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid list: {} {reason}", path.display())]
pub struct UserListError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error of reading it.
    pub reason: ReadError,
}

#[cfg(test)]
mod tests {
    use credlet_api::exec::EXEC_INFO_ENV;

    use super::*;
    use crate::FixedEnv;

    fn list(dir: &Path, text: &str) -> PathBuf {
        std::fs::create_dir_all(dir.join("credlet")).unwrap();
        let path = dir.join("credlet/names");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn entries(env: &FixedEnv) -> Vec<Option<Vec<String>>> {
        UserList::load("names", env).unwrap().into_iter().map(|list| list.entries).collect()
    }

    #[test]
    fn entries_are_lines_without_comments() {
        let dir = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_CONFIG_HOME", dir.path())]);
        assert_eq!(entries(&env), [None]);
        list(dir.path(), "# ours\n aws \n\n/opt/x # y\n");
        assert_eq!(entries(&env), [Some(vec!["aws".to_owned(), "/opt/x".to_owned()])]);
        assert!(entries(&FixedEnv::default()).is_empty());
    }

    #[test]
    fn plugin_run_reads_account_list_first() {
        let (account, evil) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (ours, theirs) = (list(&account.path().join(CONFIG_IN_HOME), "aws"), list(evil.path(), "sh"));
        let load = |vars: &[(&str, &Path)]| {
            let env = FixedEnv::new(vars.iter().copied()).with_account_home(account.path());
            UserList::load("names", &env).unwrap().into_iter().map(|list| list.path).collect::<Vec<_>>()
        };
        let mark = (EXEC_INFO_ENV, Path::new("{}"));
        let both = [ours.clone(), theirs.clone()];
        assert_eq!(load(&[mark]), both[..1]);
        assert_eq!(load(&[mark, ("HOME", account.path())]), both[..1]);
        assert_eq!(load(&[mark, ("XDG_CONFIG_HOME", evil.path())]), both);
        assert_eq!(load(&[mark, ("HOME", evil.path())])[0], ours);
        assert_eq!(load(&[mark, ("XDG_CONFIG_HOME", Path::new("relative"))])[0], ours);
        // On the command line.
        assert_eq!(load(&[("XDG_CONFIG_HOME", evil.path())]), [theirs]);
    }

    #[test]
    fn rejects_untrusted_list() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let env = FixedEnv::new([("XDG_CONFIG_HOME", dir.path())]);
        let path = list(dir.path(), "aws");
        let reason = || UserList::load("names", &env).unwrap_err().reason;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(reason(), ReadError::Untrusted);
        std::fs::write(&path, [0xff]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(reason(), ReadError::Io(io::ErrorKind::InvalidData));
        std::fs::remove_file(&path).unwrap();
        credlet_testkit::make_fifo(&path);
        assert_eq!(reason(), ReadError::NotRegular);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        UserList::load("names", &env).unwrap_err();
    }
}
