//! A socket beside the proxy's own, for the members of a group.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use super::listener::Place;
use super::options::ForGroup;
use super::{ServeError, peer};
use crate::dir::{Dir, DirError};

/// That a socket has while it is the group's: nobody else may connect, says the kernel, which knows all groups that
/// somebody is in.
const MODE: u32 = 0o660;

/// A listening socket for a group, in a directory that only its owner can change.
#[derive(Debug)]
pub(super) struct SharedDoor {
    pub(super) listener: UnixListener,
    path: PathBuf,
    group: u32,
}

impl SharedDoor {
    /// Listens at `DIR/NAME/s.sock`. The proxy that has the place is the only one of this name.
    pub(super) fn open(wanted: &ForGroup, place: &Place, dir: &Dir) -> Result<Self, ServeError> {
        let name = dir.path().file_name().unwrap_or_default();
        let home = wanted.dir.join(name);
        let made = |path: &Path, mode| match DirBuilder::new().mode(0o700).create(path) {
            // Whatever the umask is, which is strict in a daemon.
            Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        };
        let unusable =
            |path: &Path, error: io::Error| DirError::Unusable { path: path.to_owned(), reason: error.into() };
        made(&wanted.dir, 0o711).map_err(|error| unusable(&wanted.dir, error))?;
        check(&wanted.dir)?;
        made(&home, 0o700).map_err(|error| unusable(&home, error))?;
        check(&home)?;
        // For the group to go through, and to see nothing else.
        let given = chown(&home, None, Some(wanted.group));
        let given = given.and_then(|()| fs::set_permissions(&home, Permissions::from_mode(0o710)));
        given.map_err(|error| unusable(&home, error))?;
        let path = home.join("s.sock");
        let listener = place.listen_for(path.clone(), MODE, Some(wanted.group))?;
        Ok(Self { listener, path, group: wanted.group })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this one may come in. The kernel has looked at the permissions of the socket, so whoever is here is of the
    /// group, if they are still as we set them. If somebody opened it to all, those who are of the group first of all
    /// still come in, and others do not.
    pub(super) fn admit(&self, stream: &UnixStream) -> bool {
        let (own, group) = (rustix::process::geteuid().as_raw(), self.group);
        let as_it_was = || {
            let found = fs::symlink_metadata(&self.path);
            found.is_ok_and(|found| (found.uid(), found.gid(), found.mode() & 0o777) == (own, group, MODE))
        };
        peer::admit_if(stream, |uid, gid| uid == own || gid == group || as_it_was())
    }

    /// Takes its name away, and the directory that was for it alone.
    pub(super) fn hide(&self) {
        let _ = fs::remove_file(&self.path);
        self.path.parent().into_iter().for_each(|dir| drop(fs::remove_dir(dir)));
    }
}

/// Nobody else may put anything here.
fn check(path: &Path) -> Result<(), DirError> {
    let refused = |reason| Err(DirError::Refused { path: path.to_owned(), reason });
    let found = fs::symlink_metadata(path);
    let found = found.map_err(|error| DirError::Unusable { path: path.to_owned(), reason: error.into() })?;
    match found {
        found if !found.is_dir() => refused("is no directory"),
        found if found.uid() != rustix::process::geteuid().as_raw() => refused("belongs to another user"),
        found if found.mode() & 0o022 != 0 => refused("can be written by other users"),
        _ => Ok(()),
    }
}
