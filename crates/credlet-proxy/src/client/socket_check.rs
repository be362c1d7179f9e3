//! Checks that only this user or root can have created a socket and listens on it.
//!
//! Root may share a socket with a group: the group may search the directory and use the socket, but only root can have
//! created it. A socket that another user shares is rejected, because its listener sees every request.

use std::io;
use std::path::{Path, PathBuf};

use credlet_api::escape_control_chars;
use rustix::fs::{FileType, Mode};
use tokio::net::UnixStream;

use crate::socket_dir::{FileAttributes, SocketDir};

/// A socket that must not be used.
#[derive(Debug)]
pub(super) enum SocketCheckError {
    /// The socket or its directory does not exist.
    Missing(io::Error),
    /// The reason why it is unsafe.
    Unsafe(String),
}

/// A socket that passed the checks. The address is valid while this value lives.
#[derive(Debug)]
pub(super) struct CheckedSocket {
    pub(super) address: PathBuf,
    _dir: SocketDir,
}

/// Checks the socket and its directory. Only the owner can change the directory, and the connection goes through its
/// open descriptor, so the result stays true.
pub(super) fn check_socket(socket: &Path) -> Result<CheckedSocket, SocketCheckError> {
    let (path, name) = (socket.parent().unwrap_or(Path::new("/")), socket.file_name().unwrap_or_default());
    let dir = match SocketDir::of(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(unsafe_(path, "is not a directory")),
        opened => opened.map_err(|error| unreadable(path, error))?,
    };
    let found = dir.about().map_err(|error| unreadable(path, error))?;
    if found.file_type != FileType::Directory {
        return Err(unsafe_(path, "is not a directory"));
    }
    private(path, found, Mode::WGRP | Mode::RWXO)?;
    let found = dir.entry(name).map_err(|error| unreadable(socket, error))?;
    if found.file_type != FileType::Socket {
        return Err(unsafe_(socket, "is not a socket"));
    }
    private(socket, found, Mode::RWXO)?;
    Ok(CheckedSocket { address: dir.address(name), _dir: dir })
}

/// Checks the user id of the listening process.
pub(super) fn check_listener(stream: &UnixStream, socket: &Path) -> Result<(), SocketCheckError> {
    match stream.peer_cred() {
        Ok(peer) if is_trusted(peer.uid()) => Ok(()),
        Ok(_) => Err(unsafe_(socket, "has a listener of another user")),
        Err(error) => Err(unsafe_(socket, &format!("has an unknown listener: {error}"))),
    }
}

fn unreadable(path: &Path, error: io::Error) -> SocketCheckError {
    match error.kind() {
        io::ErrorKind::NotFound => SocketCheckError::Missing(error),
        _ => unsafe_(path, &format!("cannot be checked: {error}")),
    }
}

/// `never`: permissions that other users must not have even if root shares the socket with a group.
fn private(path: &Path, found: FileAttributes, never: Mode) -> Result<(), SocketCheckError> {
    if !is_trusted(found.uid) {
        return Err(unsafe_(path, "belongs to another user"));
    }
    let is_own = found.uid == rustix::process::geteuid().as_raw();
    let never = if is_own { Mode::RWXG | Mode::RWXO } else { never };
    if found.mode.intersects(never) {
        return Err(unsafe_(path, &format!("is open to other users (mode {:04o})", found.mode.bits())));
    }
    Ok(())
}

/// Root has access to this process anyway.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn unsafe_(path: &Path, reason: &str) -> SocketCheckError {
    SocketCheckError::Unsafe(format!("{} {reason}", escape_control_chars(&path.to_string_lossy())))
}
