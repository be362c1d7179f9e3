//! Authentication of Unix socket peers by their kernel credentials.

use std::path::Path;

use rustix::fs::FileType;
use tokio::net::UnixStream;

use crate::socket_dir::SocketDir;

/// User ids that are allowed to connect.
#[derive(Clone, Debug)]
pub(super) struct AllowedPeers {
    own: u32,
    also: Vec<u32>,
}

impl AllowedPeers {
    pub(super) fn new(also: Vec<u32>) -> Self {
        Self { own: rustix::process::geteuid().as_raw(), also }
    }

    /// Returns the user id of the peer if it is allowed. Root is not: it can become this user.
    pub(super) fn admit(&self, stream: &UnixStream) -> Option<u32> {
        admit_if(stream, |uid, _| self.admits(uid))
    }

    fn admits(&self, uid: u32) -> bool {
        uid == self.own || self.also.contains(&uid)
    }
}

/// Returns the user id of the peer if `is_one` accepts its user and primary group.
pub(super) fn admit_if(stream: &UnixStream, is_one: impl FnOnce(u32, u32) -> bool) -> Option<u32> {
    match stream.peer_cred() {
        Ok(peer) if is_one(peer.uid(), peer.gid()) => {
            tracing::debug!(uid = peer.uid(), pid = peer.pid(), "accepted connection");
            Some(peer.uid())
        }
        Ok(peer) => {
            // The process id may have been reused and is only for the log.
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), "rejected connection of another user");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "rejected connection: peer credentials unavailable");
            None
        }
    }
}

/// Connects to a socket that belongs to this user and on which this user or root listens.
///
/// # Errors
/// `ErrorKind::PermissionDenied` if the socket or its listener belongs to another user, else the error of `connect`.
pub(super) async fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let own = rustix::process::geteuid().as_raw();
    let foreign = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let (dir, name) = (SocketDir::of(path)?, path.file_name().unwrap_or_default());
    let found = dir.entry(name)?;
    if found.file_type != FileType::Socket || found.uid != own || dir.about()?.uid != own {
        return Err(foreign());
    }
    let stream = UnixStream::connect(dir.address(name)).await?;
    match stream.peer_cred()?.uid() {
        uid if uid == own || uid == 0 => Ok(stream),
        _ => Err(foreign()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_own_and_listed_uids() {
        let peers = AllowedPeers { own: 1000, also: vec![1001] };
        assert!(peers.admits(1000) && peers.admits(1001));
        assert!(!peers.admits(0) && !peers.admits(65534));
    }

    #[tokio::test]
    async fn rejects_peer_with_other_uid() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(AllowedPeers::new(Vec::new()).admit(&ours).is_some());
        let own = rustix::process::geteuid().as_raw();
        assert!(AllowedPeers { own: own + 1, also: Vec::new() }.admit(&ours).is_none());
    }
}
