//! Finding a program by Go's rules, which are client-go's.

use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::Env;

/// Finds the program that `command` names.
///
/// A name without a `/` is looked for in the directories of this process's own `PATH`; one that is found only relative
/// to the current directory is refused, because whoever filled that directory would choose the program. Anything with a
/// `/` is a path, and stays one: `./plugin` is never looked for in `PATH`.
///
/// # Errors
/// Says what is wrong with the file if there is one, rather than that there is none.
pub fn look_up(command: &str, env: &dyn Env) -> Result<PathBuf, LookupError> {
    if command.contains('/') {
        let path = absolute(Path::new(command), env);
        return executable(&path).map(|()| path);
    }
    let search = env.var("PATH").unwrap_or_default();
    let mut unusable = None;
    for dir in std::env::split_paths(&search) {
        let path = if dir.as_os_str().is_empty() { Path::new(".").join(command) } else { dir.join(command) };
        match executable(&path) {
            Ok(()) if path.is_absolute() => return Ok(path),
            Ok(()) => return Err(LookupError::Relative { path }),
            Err(LookupError::NotFound { .. }) => {}
            Err(error) => unusable = unusable.or(Some(error)),
        }
    }
    Err(unusable.unwrap_or_else(|| LookupError::NotFound { command: command.to_owned() }))
}

/// `path` without `.`, `..` and doubled separators, as Go's `filepath.Clean`: by the text alone, without the disk.
pub(crate) fn clean(path: &str) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => match cleaned.components().next_back() {
                Some(Component::Normal(_)) => drop(cleaned.pop()),
                Some(Component::RootDir) => {}
                _ => cleaned.push(".."),
            },
            other => cleaned.push(other),
        }
    }
    if cleaned.as_os_str().is_empty() { PathBuf::from(".") } else { cleaned }
}

fn absolute(path: &Path, env: &dyn Env) -> PathBuf {
    match env.current_dir() {
        Some(dir) if path.is_relative() => dir.join(path),
        _ => path.to_owned(),
    }
}

fn executable(path: &Path) -> Result<(), LookupError> {
    let path_buf = || path.to_owned();
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(LookupError::Directory { path: path_buf() }),
        Ok(_) => accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|_| LookupError::NotExecutable { path: path_buf() }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Err(LookupError::NotFound { command: path.display().to_string() })
        }
        Err(error) => Err(LookupError::OutOfReach { path: path_buf(), reason: error.kind() }),
    }
}

/// Why there is no program to run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// There is none.
    #[error("`{command}` is not installed")]
    NotFound {
        /// The name or path.
        command: String,
    },
    /// There is one, but only through an entry of PATH that depends on the current directory.
    #[error("`{}` was found only through a relative entry of PATH, which is not safe to run", path.display())]
    Relative {
        /// Where.
        path: PathBuf,
    },
    /// There is a file that may not be run.
    #[error("`{}` is not executable for this user", path.display())]
    NotExecutable {
        /// Which.
        path: PathBuf,
    },
    /// There is a directory of that name.
    #[error("`{}` is a directory", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
    },
    /// Something in between cannot be read.
    #[error("`{}` cannot be reached ({reason})", path.display())]
    OutOfReach {
        /// Which.
        path: PathBuf,
        /// Why not.
        reason: io::ErrorKind,
    },
}

impl LookupError {
    /// Whether installing the program would help.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::Relative { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::FixedEnv;

    fn program(dir: &Path, name: &str, mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn path_of(dirs: &[&Path]) -> FixedEnv {
        FixedEnv::new([("PATH", std::env::join_paths(dirs).unwrap())])
    }

    #[test]
    fn the_first_usable_file_in_path_is_taken() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        program(a.path(), "plug", 0o644);
        let good = program(b.path(), "plug", 0o755);
        assert_eq!(look_up("plug", &path_of(&[a.path(), b.path()])), Ok(good));
    }

    #[test]
    fn an_unusable_file_is_named_when_there_is_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = program(dir.path(), "plug", 0o644);
        let env = path_of(&[dir.path()]);
        assert_eq!(look_up("plug", &env), Err(LookupError::NotExecutable { path: path.clone() }));
        assert_eq!(look_up(path.to_str().unwrap(), &env), Err(LookupError::NotExecutable { path }));
        fs::create_dir(dir.path().join("sub")).unwrap();
        assert_eq!(look_up("sub", &env), Err(LookupError::Directory { path: dir.path().join("sub") }));
        assert_eq!(look_up("none", &env), Err(LookupError::NotFound { command: "none".to_owned() }));
        assert_eq!(look_up("plug --arg", &env), Err(LookupError::NotFound { command: "plug --arg".to_owned() }));
    }

    #[test]
    fn a_relative_entry_of_path_is_refused() {
        // The tests run in the crate's directory; `src` is a relative entry that holds a directory, no program.
        let dir = tempfile::tempdir_in(".").unwrap();
        let relative = Path::new(dir.path().file_name().unwrap());
        program(relative, "plug", 0o755);
        let env = path_of(&[relative]);
        assert_eq!(look_up("plug", &env), Err(LookupError::Relative { path: relative.join("plug") }));
    }

    #[test]
    fn an_explicit_path_is_never_looked_for_in_path() {
        let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let in_path = program(elsewhere.path(), "plug", 0o755);
        let env = path_of(&[elsewhere.path()]).in_dir(here.path());
        assert!(look_up("./plug", &env).unwrap_err().is_missing());
        let local = program(here.path(), "plug", 0o755);
        assert_eq!(
            look_up("./plug", &env).map(|found| found.canonicalize().unwrap()),
            local.canonicalize().map_err(|_| unreachable!())
        );
        assert_eq!(look_up("plug", &env), Ok(in_path));
    }

    #[test]
    fn without_path_nothing_is_found() {
        assert!(look_up("sh", &FixedEnv::default()).unwrap_err().is_missing());
    }

    #[test]
    fn paths_are_cleaned_as_go_cleans_them() {
        for (path, cleaned) in [
            ("", "."),
            ("./plug", "plug"),
            ("a/../plug", "plug"),
            ("a//b/./c/", "a/b/c"),
            ("../a", "../a"),
            ("a/../../b", "../b"),
            ("/../a", "/a"),
            ("/a/b/../c", "/a/c"),
        ] {
            assert_eq!(clean(path), Path::new(cleaned), "{path}");
        }
    }
}
