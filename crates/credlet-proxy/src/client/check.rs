//! Whether a socket is one that only this user, or root, can have made, and whether they listen at it.
//!
//! Root may share one with a group: then the group may go through the directory and use the socket, and still nobody but
//! root can have put it there. One that another user shares is not used: whoever listens sees each request.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use credlet_api::visible;
use tokio::net::UnixStream;

/// Why nobody is called, or spoken to.
#[derive(Debug)]
pub(super) enum Refused {
    /// There is nothing to call.
    Missing(io::Error),
    /// Not safe, for this reason.
    Unsafe(String),
}

/// Looks at the socket and its directory. Nobody else can enter that, so nobody can change what was seen.
pub(super) fn place(socket: &Path) -> Result<(), Refused> {
    let dir = socket.parent().unwrap_or(Path::new("/"));
    let found = look(dir)?;
    if !found.is_dir() {
        return Err(unsafe_(dir, "is no directory"));
    }
    private(dir, &found, 0o027)?;
    let found = look(socket)?;
    if !found.file_type().is_socket() {
        return Err(unsafe_(socket, "is no socket"));
    }
    private(socket, &found, 0o007)
}

/// Asks the system who listens.
pub(super) fn listener(stream: &UnixStream, socket: &Path) -> Result<(), Refused> {
    match stream.peer_cred() {
        Ok(peer) if is_trusted(peer.uid()) => Ok(()),
        Ok(_) => Err(unsafe_(socket, "is listened at by another user")),
        Err(error) => Err(unsafe_(socket, &format!("does not say who listens: {error}"))),
    }
}

/// Without following links: one leads to where its owner likes.
fn look(path: &Path) -> Result<Metadata, Refused> {
    fs::symlink_metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Refused::Missing(error),
        _ => unsafe_(path, &format!("cannot be looked at: {error}")),
    })
}

/// `never`: what nobody else may do even if root shares it with a group.
fn private(path: &Path, found: &Metadata, never: u32) -> Result<(), Refused> {
    if !is_trusted(found.uid()) {
        return Err(unsafe_(path, "belongs to another user"));
    }
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    let never = if is_own { 0o077 } else { never };
    match found.mode() & 0o777 {
        mode if mode & never == 0 => Ok(()),
        mode => Err(unsafe_(path, &format!("is open to other users (mode {mode:04o})"))),
    }
}

/// Root could do anything to us anyhow.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn unsafe_(path: &Path, reason: &str) -> Refused {
    Refused::Unsafe(format!("{} {reason}", visible(&path.to_string_lossy())))
}
