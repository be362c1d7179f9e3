//! What a daemon has to say, for people who look for it later. It has no standard error.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::dir::Dir;

/// How large a file may become. There are two of them at most: this one and the one before.
const LARGEST: u64 = 1 << 20;

/// A file for lines, in the proxy's own directory and for its user alone.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    size: u64,
}

impl LogFile {
    /// That of this directory. What an earlier proxy wrote stays in it.
    ///
    /// # Errors
    /// When it cannot be written, or is a link.
    pub fn open(dir: &Dir) -> io::Result<Self> {
        let path = dir.log();
        let open = Mutex::new(Open::at(&path)?);
        Ok(Self { path, open })
    }

    /// Adds a line. It is lost if there is no room: nobody is there to be told.
    pub fn add(&self, line: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.size >= LARGEST {
            let _ = fs::rename(&self.path, self.path.with_extension("1"));
            match Open::at(&self.path) {
                Ok(next) => *open = next,
                // Rather none than one without bounds.
                Err(_) => return,
            }
        }
        // In one piece, for another proxy may write as well: one that sees that this one has the place already.
        if open.file.write_all(format!("{line}\n").as_bytes()).is_ok() {
            open.size += line.len() as u64 + 1;
        }
    }
}

impl Open {
    fn at(path: &Path) -> io::Result<Self> {
        let mut options = fs::OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { file, size })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_is_for_its_user_alone_goes_on_where_it_was_and_never_grows_beyond_twice_its_bound() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path().join("d")).unwrap();
        LogFile::open(&dir).unwrap().add("one");
        LogFile::open(&dir).unwrap().add("two");
        assert_eq!(fs::read_to_string(dir.log()).unwrap(), "one\ntwo\n");
        let log = LogFile::open(&dir).unwrap();
        let line = "x".repeat(100 << 10);
        for _ in 0..50 {
            log.add(&line);
        }
        log.add("the last");
        assert!(fs::read_to_string(dir.log()).unwrap().ends_with("\nthe last\n"));
        let files = ["log", "log.1"].map(|name| fs::metadata(dir.path().join(name)).unwrap());
        for file in files {
            assert!(file.len() < LARGEST + 2 * line.len() as u64, "{}", file.len());
            assert_eq!(file.permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::open(home.path().join("d")).unwrap();
        std::os::unix::fs::symlink(home.path().join("elsewhere"), dir.log()).unwrap();
        assert!(LogFile::open(&dir).is_err());
        assert!(!home.path().join("elsewhere").exists());
    }
}
