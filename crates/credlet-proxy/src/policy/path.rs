//! What a path means, if it means one thing.

use crate::percent::decoded;

/// Why nobody can say what a path means. Servers differ in what they make of such paths, so a judgement about them would
/// be one about something else than what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// A percent sign without two digits behind it, or bytes that are no text.
    #[error("its path is not escaped as paths are")]
    Escape,
    /// A slash, a backslash, a percent sign or a control character behind an escape; or a backslash or a semicolon as
    /// it is, which some servers take for a separator.
    #[error("a segment of its path has characters in it that some servers read otherwise")]
    Character,
    /// `//`, `/./`, `/../`: some servers take them away, others do not.
    #[error("its path has empty or dotted segments")]
    Segment,
}

/// The segments of a path, decoded. A slash at the end is none.
pub(super) fn segments(path: &str) -> Result<Vec<String>, Unclear> {
    let path = path.strip_prefix('/').ok_or(Unclear::Segment)?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/').map(segment).collect()
}

fn segment(text: &str) -> Result<String, Unclear> {
    let decoded = decoded(text).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(Unclear::Escape)?;
    match decoded.as_str() {
        "" | "." | ".." => Err(Unclear::Segment),
        text if text.contains(['/', '\\', '%', ';']) || text.contains(char::is_control) => Err(Unclear::Character),
        _ => Ok(decoded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_one_meaning_is_taken_apart_and_its_escapes_undone() {
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
    fn a_path_that_two_servers_may_read_in_two_ways_is_not_read_at_all() {
        for (path, why) in [
            ("", Unclear::Segment),
            ("*", Unclear::Segment),
            ("api", Unclear::Segment),
            ("//", Unclear::Segment),
            ("//api/v1", Unclear::Segment),
            ("/api//v1", Unclear::Segment),
            ("/api/v1//", Unclear::Segment),
            ("/api/./v1", Unclear::Segment),
            ("/api/..", Unclear::Segment),
            ("/api/%2e%2E/v1", Unclear::Segment),
            ("/api/.%2e", Unclear::Segment),
            ("/pods/x%2Fexec", Unclear::Character),
            ("/pods/x%2fexec", Unclear::Character),
            ("/pods/x%5Cexec", Unclear::Character),
            ("/pods/x\\exec", Unclear::Character),
            ("/pods/x/%2565xec", Unclear::Character),
            ("/pods/x/exec%00", Unclear::Character),
            ("/pods/x/exec%0a", Unclear::Character),
            ("/pods/x/exec;a=b", Unclear::Character),
            ("/pods/x/exec%3B", Unclear::Character),
            ("/pods/x/%zz", Unclear::Escape),
            ("/pods/x/%6", Unclear::Escape),
            ("/pods/x/%", Unclear::Escape),
            ("/pods/x/%+5xec", Unclear::Escape),
            ("/pods/x/%ff", Unclear::Escape),
            ("/pods/x/%c0%af", Unclear::Escape),
        ] {
            assert_eq!(segments(path), Err(why), "{path}");
        }
    }
}
