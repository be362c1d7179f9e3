use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use credlet_platform::fs::{create_private_file, is_at_path, open_regular_no_follow};

/// Prefix and suffix of the names of lock files.
const NAME_PARTS: (&str, &str) = ("client-", ".lock");

/// A file that this process holds locked with `flock` until drop. The kernel releases the lock when the process exits
/// for any reason, which wakes the proxy that waits for it. The descriptor is close-on-exec, so that a surviving child
/// cannot keep the lock.
#[derive(Debug)]
pub(super) struct ClientLockFile {
    path: PathBuf,
    file: File,
}

impl ClientLockFile {
    /// Creates and locks a new file in `dir`.
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        loop {
            let mut random = [0; 16];
            aws_lc_rs::rand::fill(&mut random).map_err(|_| io::Error::other("failed to generate random bytes"))?;
            let (before, after) = NAME_PARTS;
            let path = dir.join(format!("{before}{:032x}{after}", u128::from_ne_bytes(random)));
            let file = create_private_file(&path)?;
            let mut locked = Self { path, file };
            locked.file.lock()?;
            // For debugging only.
            writeln!(locked.file, "{}", std::process::id())?;
            // `sweep` may have removed the file between its creation and the lock.
            if locked.is_current() {
                return Ok(locked);
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file at the path is still this one.
    pub(super) fn is_current(&self) -> bool {
        is_at_path(&self.file, &self.path)
    }
}

impl Drop for ClientLockFile {
    fn drop(&mut self) {
        if self.is_current() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes lock files of exited processes.
pub(super) fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(NAME_PARTS.0) && name.ends_with(NAME_PARTS.1));
        if !is_ours {
            continue;
        }
        // Hold the lock while removing: a process that has just created this file and waits for its lock then creates
        // another.
        if let Ok(file) = open_regular_no_follow(&entry.path(), File::options().read(true))
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn lock_is_exclusive_until_drop() {
        let dir = tempfile::tempdir().unwrap();
        let locked = ClientLockFile::new(dir.path()).unwrap();
        let path = locked.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        let flags = rustix::io::fcntl_getfd(&locked.file).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let other = File::options().read(true).write(true).open(&path).unwrap();
        assert!(other.try_lock().is_err());
        drop(locked);
        assert!(other.try_lock().is_ok());
        assert!(!path.exists());
    }

    #[test]
    fn sweep_removes_only_unlocked_files() {
        let dir = tempfile::tempdir().unwrap();
        let held = ClientLockFile::new(dir.path()).unwrap();
        let left = dir.path().join("client-00.lock");
        let others = [dir.path().join("daemon.lock"), dir.path().join("client-00.sock")];
        for path in [&left, &others[0], &others[1]] {
            fs::write(path, "").unwrap();
        }
        sweep(dir.path());
        assert!(held.is_current());
        assert!(!left.exists());
        assert!(others.iter().all(|path| path.exists()));
    }
}
