//! Log file of a daemon, which has no stderr.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use credlet_platform::fs::open_regular_no_follow;

use crate::dir::ProxyDir;

/// Maximum size of a file. There are at most two, the current and the previous one.
const MAX_LOG_SIZE: u64 = 1 << 20;

/// A private log file in the directory of the proxy.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    open: Mutex<OpenLog>,
}

#[derive(Debug)]
struct OpenLog {
    file: File,
    size: u64,
}

impl LogFile {
    /// Opens the log of this directory and appends to it.
    ///
    /// # Errors
    /// If it cannot be written or is not a regular file.
    pub fn open(dir: &ProxyDir) -> io::Result<Self> {
        let path = dir.log();
        let open = Mutex::new(OpenLog::at(&path)?);
        Ok(Self { path, open })
    }

    /// Appends a line. Write errors are ignored, because there is no other place to report them.
    pub fn add(&self, line: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.size >= MAX_LOG_SIZE {
            let _ = fs::rename(&self.path, self.path.with_extension("1"));
            match OpenLog::at(&self.path) {
                Ok(next) => *open = next,
                // Do not log without a size limit.
                Err(_) => return,
            }
        }
        // A single write, because a starting proxy may append to the file as well.
        if open.file.write_all(format!("{line}\n").as_bytes()).is_ok() {
            open.size += line.len() as u64 + 1;
        }
    }
}

impl OpenLog {
    fn at(path: &Path) -> io::Result<Self> {
        let file = open_regular_no_follow(path, File::options().append(true).create(true))?;
        let size = file.metadata()?.len();
        Ok(Self { file, size })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn log_is_private_and_rotated() {
        let home = tempfile::tempdir().unwrap();
        let dir = ProxyDir::open(home.path().join("d")).unwrap();
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
            assert!(file.len() < MAX_LOG_SIZE + 2 * line.len() as u64, "{}", file.len());
            assert_eq!(file.permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let dir = ProxyDir::open(home.path().join("d")).unwrap();
        std::os::unix::fs::symlink(home.path().join("external_counts"), dir.log()).unwrap();
        assert!(LogFile::open(&dir).is_err());
        assert!(!home.path().join("external_counts").exists());
    }
}
