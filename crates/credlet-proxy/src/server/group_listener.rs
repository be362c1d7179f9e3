//! Additional socket for the members of a group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use credlet_platform::account::effective_user_id;
use credlet_platform::fs::{
    DirSearchAccess, FileAttributes, FileKind, UnsafeDir, check_trusted_dir, make_private_dir, share_dir,
};
use credlet_platform::local_socket::{LocalListener, LocalStream, SocketAccess};

use super::listener::OwnedDir;
use super::options::GroupSocket;
use super::{ServeError, peer};
use crate::dir::{DirError, ProxyDir};

/// Listening socket for a group, in a directory that only its owner can change.
#[derive(Debug)]
pub(super) struct GroupListener {
    pub(super) listener: LocalListener,
    path: PathBuf,
    group: u32,
}

impl GroupListener {
    /// Listens on `DIR/NAME/s.sock`. `owned_dir` guarantees that no other proxy has this name.
    pub(super) fn open(options: &GroupSocket, owned_dir: &OwnedDir, dir: &ProxyDir) -> Result<Self, ServeError> {
        let name = dir.path().file_name().unwrap_or_default();
        let home = options.dir.join(name);
        let unusable =
            |path: &Path, error: io::Error| DirError::Unusable { path: path.to_owned(), reason: error.into() };
        let created = make_private_dir(&options.dir).and_then(|is_new| match is_new {
            true => share_dir(&options.dir, DirSearchAccess::Everyone),
            false => Ok(()),
        });
        created.map_err(|error| unusable(&options.dir, error))?;
        check(&options.dir)?;
        make_private_dir(&home).map_err(|error| unusable(&home, error))?;
        check(&home)?;
        share_dir(&home, DirSearchAccess::Group(options.group)).map_err(|error| unusable(&home, error))?;
        let path = home.join("s.sock");
        // The kernel lets only members of the group connect.
        let listener = owned_dir.listen_with_access(path.clone(), SocketAccess::Group(options.group))?;
        Ok(Self { listener, path, group: options.group })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the user id of the peer if it is allowed. The kernel has checked group membership, as long as the socket
    /// has the mode that was set. If the mode was changed, only peers with this primary group are accepted.
    pub(super) fn admit(&self, stream: &LocalStream) -> Option<u32> {
        let (own, group) = (effective_user_id(), self.group);
        let as_it_was = || SocketAccess::Group(group).is_set_on(&self.path);
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
    let found = FileAttributes::at(path);
    let found = found.map_err(|error| DirError::Unusable { path: path.to_owned(), reason: error.into() })?;
    match found {
        found if found.kind != FileKind::Directory => refused(UnsafeDir::NotDirectory),
        found if !found.is_own() => refused(UnsafeDir::ForeignOwner { owner: found.owner }),
        found if found.is_writable_by_others() => refused(UnsafeDir::OpenToOthers { mode: found.mode }),
        _ => check_trusted_dir(path).or_else(refused),
    }
}
