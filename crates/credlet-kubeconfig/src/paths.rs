//! Lexical path resolution by the rules of Go's `filepath.Join`: `..` removes the component before it, without access to
//! the file system.

use std::path::{Component, Path, PathBuf};

/// Resolves a relative path against `base`. An absolute path is returned unchanged.
pub(super) fn resolve_path(base: Option<&Path>, path: &Path) -> PathBuf {
    match base {
        Some(base) if !path.is_absolute() => clean(&base.join(path)),
        _ => path.to_owned(),
    }
}

/// Whether a command is a path, and not a name to look up in PATH. On Windows `/` is a separator as well.
pub(super) fn is_path(command: &str) -> bool {
    command.contains(std::path::is_separator)
}

fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match (component, clean.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir | Component::Prefix(_))) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                clean.pop();
            }
            _ => clean.push(component),
        }
    }
    if clean.as_os_str().is_empty() { PathBuf::from(".") } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(base: &str, path: &str) -> String {
        resolve_path(Some(Path::new(base)), Path::new(path)).to_string_lossy().into_owned()
    }

    #[test]
    fn resolves_relative_paths_lexically() {
        assert_eq!(from("/home/ada/.kube", "ca.pem"), "/home/ada/.kube/ca.pem");
        assert_eq!(from("/home/ada/.kube", "./bin//plugin"), "/home/ada/.kube/bin/plugin");
        assert_eq!(from("/home/ada/.kube", "../../x/./y"), "/home/x/y");
        assert_eq!(from("/a", "../../../x"), "/x");
        assert_eq!(from("/a", "/b/../c"), "/b/../c");
        assert_eq!(from("a", "../../x"), "../x");
        assert_eq!(from("a", ".."), ".");
        assert_eq!(resolve_path(None, Path::new("./x")), Path::new("./x"));
    }

    #[test]
    fn command_with_separator_is_a_path() {
        assert!(is_path("./aws") && is_path("bin/aws") && is_path("/bin/aws"));
        assert!(!is_path("aws") && !is_path(""));
        #[cfg(windows)]
        assert!(is_path(r"bin\aws"));
    }
}
