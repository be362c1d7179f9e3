//! Additional socket for the members of a group.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use credlet_platform::fs::{UnsafeDir, check_trusted_dir};
use tokio::net::{UnixListener, UnixStream};

use super::listener::OwnedDir;
use super::options::GroupSocket;
use super::{ServeError, peer};
use crate::dir::{DirError, ProxyDir};

/// Mode of the socket. The kernel lets only members of the group connect.
const MODE: u32 = 0o660;

/// Listening socket for a group, in a directory that only its owner can change.
#[derive(Debug)]
pub(super) struct GroupListener {
    pub(super) listener: UnixListener,
    path: PathBuf,
    group: u32,
}

impl GroupListener {
    /// Listens on `DIR/NAME/s.sock`. `owned_dir` guarantees that no other proxy has this name.
    pub(super) fn open(options: &GroupSocket, owned_dir: &OwnedDir, dir: &ProxyDir) -> Result<Self, ServeError> {
        let name = dir.path().file_name().unwrap_or_default();
        let home = options.dir.join(name);
        let create = |path: &Path, mode| match DirBuilder::new().mode(0o700).create(path) {
            // Independent of the umask, which is strict in a daemon.
            Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        };
        let unusable =
            |path: &Path, error: io::Error| DirError::Unusable { path: path.to_owned(), reason: error.into() };
        create(&options.dir, 0o711).map_err(|error| unusable(&options.dir, error))?;
        check(&options.dir)?;
        create(&home, 0o700).map_err(|error| unusable(&home, error))?;
        check(&home)?;
        // The group may search the directory but not list it.
        let shared = chown(&home, None, Some(options.group));
        let shared = shared.and_then(|()| fs::set_permissions(&home, Permissions::from_mode(0o710)));
        shared.map_err(|error| unusable(&home, error))?;
        let path = home.join("s.sock");
        let listener = owned_dir.listen_with_mode(path.clone(), MODE, Some(options.group))?;
        Ok(Self { listener, path, group: options.group })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the user id of the peer if it is allowed. The kernel has checked group membership, as long as the socket
    /// has the mode that was set. If the mode was changed, only peers with this primary group are accepted.
    pub(super) fn admit(&self, stream: &UnixStream) -> Option<u32> {
        let (own, group) = (rustix::process::geteuid().as_raw(), self.group);
        let as_it_was = || {
            let found = fs::symlink_metadata(&self.path);
            found.is_ok_and(|found| (found.uid(), found.gid(), found.mode() & 0o777) == (own, group, MODE))
        };
        peer::admit_if(stream, |uid, gid| uid == own || gid == group || as_it_was())
    }

    /// Removes the socket and its directory.
    pub(super) fn unlink(&self) {
        let _ = fs::remove_file(&self.path);
        self.path.parent().into_iter().for_each(|dir| drop(fs::remove_dir(dir)));
    }
}

/// Checks that no other user can change the directory.
fn check(path: &Path) -> Result<(), DirError> {
    let refused = |reason| Err(DirError::Refused { path: path.to_owned(), reason });
    let found = fs::symlink_metadata(path);
    let found = found.map_err(|error| DirError::Unusable { path: path.to_owned(), reason: error.into() })?;
    match found {
        found if !found.is_dir() => refused(UnsafeDir::NotDirectory),
        found if found.uid() != rustix::process::geteuid().as_raw() => {
            refused(UnsafeDir::ForeignOwner { owner: found.uid() })
        }
        found if found.mode() & 0o022 != 0 => refused(UnsafeDir::OpenToOthers { mode: found.mode() & 0o7777 }),
        _ => check_trusted_dir(path).or_else(refused),
    }
}
