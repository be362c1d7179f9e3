//! Paths as text, by Go's rules: `..` is taken away together with what stands before it, without looking at the disk.

use std::path::{Component, Path, PathBuf};

/// `path`, seen from `base` if it is relative. Absolute paths stay as they are written.
pub(super) fn seen_from(base: Option<&Path>, path: &Path) -> PathBuf {
    match base {
        Some(base) if !path.is_absolute() => clean(&base.join(path)),
        _ => path.to_owned(),
    }
}

/// Whether a command is a path, or a name to be looked up in PATH. On Windows `/` counts too.
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
        seen_from(Some(Path::new(base)), Path::new(path)).to_string_lossy().into_owned()
    }

    #[test]
    fn relative_paths_are_joined_and_tidied_and_absolute_ones_left_alone() {
        assert_eq!(from("/home/ada/.kube", "ca.pem"), "/home/ada/.kube/ca.pem");
        assert_eq!(from("/home/ada/.kube", "./bin//plugin"), "/home/ada/.kube/bin/plugin");
        assert_eq!(from("/home/ada/.kube", "../../x/./y"), "/home/x/y");
        assert_eq!(from("/a", "../../../x"), "/x");
        assert_eq!(from("/a", "/b/../c"), "/b/../c");
        assert_eq!(from("a", "../../x"), "../x");
        assert_eq!(from("a", ".."), ".");
        assert_eq!(seen_from(None, Path::new("./x")), Path::new("./x"));
    }

    #[test]
    fn a_command_is_a_path_if_there_is_a_separator_in_it() {
        assert!(is_path("./aws") && is_path("bin/aws") && is_path("/bin/aws"));
        assert!(!is_path("aws") && !is_path(""));
        #[cfg(windows)]
        assert!(is_path(r"bin\aws"));
    }
}
