//! Detects whether a plugin's output may depend on the working directory.

use std::ffi::OsStr;
use std::path::Path;

/// Parts of names of variables that hold paths.
const PATH_WORDS: [&str; 8] = ["FILE", "PATH", "DIR", "CONFIG", "HOME", "CERT", "CACHE", "CREDENTIAL"];

/// An argument with more parts counts as a relative path without looking up each part.
const MAX_PARTS: usize = 64;

/// Whether an argument is or contains a path relative to `dir`: it is written as one (`./x`, `../x`), or a part of it
/// names an existing file. `--cluster-name blue` is not a path, unless there is a file `blue`.
pub(super) fn is_relative_argument(argument: &str, dir: &Path) -> bool {
    // Names of AWS resources would be looked up in seven parts.
    if argument.starts_with("arn:") {
        return false;
    }
    if parts(argument).nth(MAX_PARTS).is_some() {
        return true;
    }
    // As in `-fFILE`.
    let attached = argument.strip_prefix('-').filter(|flag| !flag.starts_with('-')).and_then(|flag| flag.get(1..));
    let whole = Some(argument).filter(|argument| argument.contains(SEPARATORS));
    whole.into_iter().chain(parts(argument)).chain(attached).any(|part| is_relative_path(part, dir))
}

/// The same for the value of a variable. Looking up every value would take too long, so a value that is not written as a
/// path counts only if the variable's name suggests one.
pub(super) fn is_relative_variable(name: &OsStr, value: &OsStr, dir: &Path) -> bool {
    let Some(value) = value.to_str().filter(|value| !value.is_empty()) else { return false };
    let (is_absolute, has_slash) = (value.starts_with('/'), value.contains('/'));
    let holds_path = || PATH_WORDS.iter().any(|word| name.to_string_lossy().contains(word));
    if name == "MANPATH" || name == "INFOPATH" {
        return false;
    }
    if name.as_encoded_bytes().ends_with(b"PATH") {
        // An empty element of a search path is the working directory.
        return value.split(':').any(|element| !element.starts_with('/'));
    }
    if is_absolute && !value.contains(SEPARATORS) || !has_slash && value != "." && value != ".." && !holds_path() {
        return false;
    }
    let counts =
        |part: &str| is_written_relative(part) || (part.contains('/') || holds_path()) && is_relative_path(part, dir);
    counts(value) || parts(value).any(counts)
}

/// Characters that precede a path, as in `--file=x`, `@x`, `file:x`, `a,b`.
const SEPARATORS: [char; 6] = ['=', ',', ':', '@', ';', ' '];

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(SEPARATORS).filter(|part| !part.is_empty())
}

fn is_relative_path(part: &str, dir: &Path) -> bool {
    // Paths are shorter than 4096 bytes (PATH_MAX); tokens and JSON may be longer.
    let may_exist = part.len() < 4096 && !part.starts_with(['/', '-']);
    is_written_relative(part) || may_exist && dir.join(part).symlink_metadata().is_ok()
}

fn is_written_relative(part: &str) -> bool {
    part == "." || part == ".." || part.starts_with("./") || part.starts_with("../")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_relative_arguments() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("who"), "").unwrap();
        let relative = |argument: &str| is_relative_argument(argument, dir.path());
        for argument in
            ["./x", "../x", ".", "--file=./x", "who", "--file=who", "-fwho", "@who", "file:who", "a=b,c=who"]
        {
            assert!(relative(argument), "{argument}");
        }
        for argument in [
            "",
            "eks",
            "get-token",
            "--cluster-name",
            "blue",
            "/etc/who",
            "https://id.example/who",
            "arn:aws:iam::123456789012:role/admin",
            "--oidc-issuer-url=https://id.example/",
            "v1.2",
            "...",
        ] {
            assert!(!relative(argument), "{argument}");
        }
    }

    #[test]
    fn detects_relative_variables() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("who"), "").unwrap();
        let relative = |name: &str, value: &str| is_relative_variable(name.as_ref(), value.as_ref(), dir.path());
        for (name, value) in [
            ("KUBECONFIG", "who"),
            ("KUBECONFIG", "/etc/kube:who"),
            ("AWS_CONFIG_FILE", "./x"),
            ("ANY", "../x"),
            ("ANY", "./x"),
            ("PATH", "/bin::/usr/bin"),
            ("PATH", "bin:/usr/bin"),
        ] {
            assert!(relative(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("KUBECONFIG", "/etc/who"),
            ("AWS_CONFIG_FILE", "none"),
            ("OS_USERNAME", "who"),
            ("PATH", "/usr/bin:/bin"),
            ("HTTPS_PROXY", "http://127.0.0.1:3128/"),
            ("EMPTY_FILE", ""),
        ] {
            assert!(!relative(name, value), "{name}={value}");
        }
    }
}
