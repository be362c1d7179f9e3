//! Checks whether another user can replace a program.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

/// Returns the first path that lets another user replace the program, with the reason.
pub(super) fn find_exposed(program: &Path) -> Option<(PathBuf, &'static str)> {
    let real = program.canonicalize().ok()?;
    let parents = [program.parent(), real.parent()].into_iter().flatten().map(Path::to_owned);
    let places: Vec<PathBuf> = [real.clone()].into_iter().chain(parents).collect();
    places.into_iter().find_map(|place| {
        let metadata = place.metadata().ok()?;
        why(&metadata, geteuid().as_raw(), getegid().as_raw()).map(|reason| (place, reason))
    })
}

fn why(metadata: &Metadata, user: u32, group: u32) -> Option<&'static str> {
    reason(metadata.mode(), metadata.is_dir(), [metadata.uid(), metadata.gid()], [user, group])
}

/// In a directory with the sticky bit, like /tmp, users cannot replace each other's files. Write permission of the user's primary group
/// is accepted: on many systems every user has a private group.
fn reason(mode: u32, is_dir: bool, owner: [u32; 2], us: [u32; 2]) -> Option<&'static str> {
    let [uid, gid] = owner;
    let sticky = is_dir && mode & 0o1000 != 0;
    if uid != us[0] && uid != 0 {
        return Some("belongs to another user");
    }
    if sticky {
        return None;
    }
    if mode & 0o002 != 0 {
        return Some("is writable by all users");
    }
    (mode & 0o020 != 0 && gid != us[1] && gid != 0).then_some("is writable by another group")
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: [u32; 2] = [1000, 1000];

    #[test]
    fn finds_paths_writable_by_others() {
        assert_eq!(reason(0o777, false, US, US), Some("is writable by all users"));
        assert_eq!(reason(0o775, false, [1000, 100], US), Some("is writable by another group"));
        assert_eq!(reason(0o755, false, [1001, 1001], US), Some("belongs to another user"));
        assert_eq!(reason(0o1777, true, [1001, 1001], US), Some("belongs to another user"));
    }

    #[test]
    fn accepts_paths_of_user_and_root() {
        assert_eq!(reason(0o755, false, US, US), None);
        assert_eq!(reason(0o775, true, US, US), None);
        assert_eq!(reason(0o755, true, [0, 0], US), None);
        assert_eq!(reason(0o1777, true, [0, 0], US), None);
    }
}
