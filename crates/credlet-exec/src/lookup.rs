//! Finds a program by the rules of Go's `exec.LookPath`, which client-go uses.

use std::io;
use std::path::{Component, Path, PathBuf};

use credlet_platform::fs::is_executable;

use crate::Env;

/// Returns the path of the program that `command` names.
///
/// A name without `/` is searched for in the `PATH` of this process. A match in a relative `PATH` entry is an error, since
/// it would depend on the current directory. A command with `/` is a path, relative to the current directory, and is never
/// searched for in `PATH`.
///
/// # Errors
/// If `PATH` has only unusable files of that name, the error is that of the first one.
pub fn find_program(command: &str, env: &dyn Env) -> Result<PathBuf, LookupError> {
    if command.contains('/') {
        let path = absolute(Path::new(command), env);
        return check_executable(&path).map(|()| path);
    }
    let search = env.var("PATH").unwrap_or_default();
    let mut unusable = None;
    for dir in std::env::split_paths(&search) {
        let path = if dir.as_os_str().is_empty() { Path::new(".").join(command) } else { dir.join(command) };
        match check_executable(&path) {
            Ok(()) if path.is_absolute() => return Ok(path),
            Ok(()) => return Err(LookupError::Relative { path }),
            Err(LookupError::NotFound { .. }) => {}
            Err(error) => unusable = unusable.or(Some(error)),
        }
    }
    Err(unusable.unwrap_or_else(|| LookupError::NotFound { command: command.to_owned() }))
}

/// Returns `path` without `.`, `..` and repeated separators, like Go's `filepath.Clean`. Does not access the file system.
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

fn check_executable(path: &Path) -> Result<(), LookupError> {
    let path_buf = || path.to_owned();
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(LookupError::Directory { path: path_buf() }),
        Ok(_) if is_executable(path) => Ok(()),
        Ok(_) => Err(LookupError::NotExecutable { path: path_buf() }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Err(LookupError::NotFound { command: path.display().to_string() })
        }
        Err(error) => Err(LookupError::Inaccessible { path: path_buf(), reason: error.kind() }),
    }
}

/// The program was not found, or its file cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// No such file.
    #[error("`{command}` is not installed")]
    NotFound {
        /// The name or path.
        command: String,
    },
    /// Found only in a relative `PATH` entry.
    #[error("`{}` was found only through a relative entry of PATH, which must not be used", path.display())]
    Relative {
        /// Path of the file.
        path: PathBuf,
    },
    /// The effective user may not execute the file.
    #[error("`{}` is not executable for this user", path.display())]
    NotExecutable {
        /// Path of the file.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("`{}` is a directory", path.display())]
    Directory {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file cannot be accessed.
    #[error("cannot access `{}`: {reason}", path.display())]
    Inaccessible {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::ErrorKind,
    },
}

impl LookupError {
    /// Whether installing the program would resolve the error.
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
    fn finds_first_executable_in_path() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        program(a.path(), "plug", 0o644);
        let good = program(b.path(), "plug", 0o755);
        assert_eq!(find_program("plug", &path_of(&[a.path(), b.path()])), Ok(good));
    }

    #[test]
    fn names_the_unusable_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = program(dir.path(), "plug", 0o644);
        let env = path_of(&[dir.path()]);
        assert_eq!(find_program("plug", &env), Err(LookupError::NotExecutable { path: path.clone() }));
        assert_eq!(find_program(path.to_str().unwrap(), &env), Err(LookupError::NotExecutable { path }));
        fs::create_dir(dir.path().join("sub")).unwrap();
        assert_eq!(find_program("sub", &env), Err(LookupError::Directory { path: dir.path().join("sub") }));
        assert_eq!(find_program("none", &env), Err(LookupError::NotFound { command: "none".to_owned() }));
        assert_eq!(find_program("plug --arg", &env), Err(LookupError::NotFound { command: "plug --arg".to_owned() }));
    }

    #[test]
    fn rejects_relative_path_entry() {
        // Tests run in the directory of the crate.
        let dir = tempfile::tempdir_in(".").unwrap();
        let relative = Path::new(dir.path().file_name().unwrap());
        program(relative, "plug", 0o755);
        let env = path_of(&[relative]);
        assert_eq!(find_program("plug", &env), Err(LookupError::Relative { path: relative.join("plug") }));
    }

    #[test]
    fn explicit_path_is_not_searched_in_path() {
        let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let in_path = program(elsewhere.path(), "plug", 0o755);
        let env = path_of(&[elsewhere.path()]).in_dir(here.path());
        assert!(find_program("./plug", &env).unwrap_err().is_missing());
        let local = program(here.path(), "plug", 0o755);
        assert_eq!(
            find_program("./plug", &env).map(|found| found.canonicalize().unwrap()),
            local.canonicalize().map_err(|_| unreachable!())
        );
        assert_eq!(find_program("plug", &env), Ok(in_path));
    }

    #[test]
    fn finds_nothing_without_path() {
        assert!(find_program("sh", &FixedEnv::default()).unwrap_err().is_missing());
    }

    #[test]
    fn cleans_paths_like_go() {
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
