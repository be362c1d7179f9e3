use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// How the names of lock files begin and end.
const NAME: (&str, &str) = ("client-", ".lock");

/// A file that is locked as long as this lives, by `flock`: the kernel lets go of it when the process ends in whatever
/// way, and whoever waits for the lock then knows. No child inherits it, or it would be held on by one that survives.
#[derive(Debug)]
pub(super) struct Locked {
    path: PathBuf,
    file: File,
}

impl Locked {
    /// A new one in `dir`.
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        loop {
            let mut random = [0; 16];
            aws_lc_rs::rand::fill(&mut random).map_err(|_| io::Error::other("there is no randomness"))?;
            let (before, after) = NAME;
            let path = dir.join(format!("{before}{:032x}{after}", u128::from_ne_bytes(random)));
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            let mut locked = Self { path, file };
            locked.file.lock()?;
            // For people who look.
            writeln!(locked.file, "{}", std::process::id())?;
            // Between its making and its locking, somebody who sweeps may have taken it for a leftover.
            if locked.is_in_place() {
                return Ok(locked);
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether who is told the path finds this file there.
    pub(super) fn is_in_place(&self) -> bool {
        let inode = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
        let ours = inode(self.file.metadata());
        ours.is_some() && inode(fs::symlink_metadata(&self.path)) == ours
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the lock files of processes that ended without doing so.
pub(super) fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(NAME.0) && name.ends_with(NAME.1));
        if !is_ours {
            continue;
        }
        // Held until it is gone: whoever has just made it and waits for it then makes another.
        if let Ok(file) = File::open(entry.path())
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
    fn a_lock_is_ours_alone_and_held_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let locked = Locked::new(dir.path()).unwrap();
        let path = locked.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        let flags = rustix::io::fcntl_getfd(&locked.file).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let other = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(other.try_lock().is_err());
        drop(locked);
        assert!(other.try_lock().is_ok());
        assert!(!path.exists());
    }

    #[test]
    fn leftovers_are_swept_and_what_is_held_or_not_ours_stays() {
        let dir = tempfile::tempdir().unwrap();
        let held = Locked::new(dir.path()).unwrap();
        let left = dir.path().join("client-00.lock");
        let others = [dir.path().join("daemon.lock"), dir.path().join("client-00.sock")];
        for path in [&left, &others[0], &others[1]] {
            fs::write(path, "").unwrap();
        }
        sweep(dir.path());
        assert!(held.is_in_place());
        assert!(!left.exists());
        assert!(others.iter().all(|path| path.exists()));
    }
}
