//! Decoding of unambiguous paths.

use credlet_api::percent_decode;

/// A path that servers interpret differently. A policy cannot be checked for it, because the API server may see a
/// different path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmbiguousPath {
    /// An invalid percent-encoding, or bytes that are not UTF-8.
    #[error("invalid percent-encoding in the path")]
    Escape,
    /// An encoded slash, backslash, percent sign or control character, or a literal backslash or semicolon, which some
    /// servers treat as separators.
    #[error("ambiguous path: servers interpret a character differently")]
    Character,
    /// `//`, `/./` or `/../`, which only some servers normalize.
    #[error("ambiguous path: unsupported empty or dot segments")]
    Segment,
}

/// Decoded segments of a path. A trailing slash is ignored.
pub(super) fn segments(path: &str) -> Result<Vec<String>, AmbiguousPath> {
    let path = path.strip_prefix('/').ok_or(AmbiguousPath::Segment)?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(segment).collect()
}

fn segment(text: &str) -> Result<String, AmbiguousPath> {
    let decoded =
        percent_decode(text).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()).ok_or(AmbiguousPath::Escape)?;
    match decoded.as_str() {
        "" | "." | ".." => Err(AmbiguousPath::Segment),
        text if text.contains(['/', '\\', '%', ';']) || text.contains(char::is_control) => {
            Err(AmbiguousPath::Character)
        }
        _ => Ok(decoded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_unambiguous_path() {
        for (path, expected) in [
            ("/", &[] as &[&str]),
            ("/api/v1", &["api", "v1"]),
            ("/api/v1/", &["api", "v1"]),
            ("/a/%65xec", &["a", "exec"]),
            ("/a/%C3%A9+b:c", &["a", "é+b:c"]),
            ("/a/...", &["a", "..."]),
        ] {
            assert_eq!(segments(path).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn rejects_ambiguous_path() {
        for (path, why) in [
            ("", AmbiguousPath::Segment),
            ("*", AmbiguousPath::Segment),
            ("api", AmbiguousPath::Segment),
            ("//", AmbiguousPath::Segment),
            ("//api/v1", AmbiguousPath::Segment),
            ("/api//v1", AmbiguousPath::Segment),
            ("/api/v1//", AmbiguousPath::Segment),
            ("/api/./v1", AmbiguousPath::Segment),
            ("/api/..", AmbiguousPath::Segment),
            ("/api/%2e%2E/v1", AmbiguousPath::Segment),
            ("/api/.%2e", AmbiguousPath::Segment),
            ("/pods/x%2Fexec", AmbiguousPath::Character),
            ("/pods/x%2fexec", AmbiguousPath::Character),
            ("/pods/x%5Cexec", AmbiguousPath::Character),
            ("/pods/x\\exec", AmbiguousPath::Character),
            ("/pods/x/%2565xec", AmbiguousPath::Character),
            ("/pods/x/exec%00", AmbiguousPath::Character),
            ("/pods/x/exec%0a", AmbiguousPath::Character),
            ("/pods/x/exec;a=b", AmbiguousPath::Character),
            ("/pods/x/exec%3B", AmbiguousPath::Character),
            ("/pods/x/%zz", AmbiguousPath::Escape),
            ("/pods/x/%6", AmbiguousPath::Escape),
            ("/pods/x/%", AmbiguousPath::Escape),
            ("/pods/x/%+5xec", AmbiguousPath::Escape),
            ("/pods/x/%ff", AmbiguousPath::Escape),
            ("/pods/x/%c0%af", AmbiguousPath::Escape),
        ] {
            assert_eq!(segments(path), Err(why), "{path}");
        }
    }
}
