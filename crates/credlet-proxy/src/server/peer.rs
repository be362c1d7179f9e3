//! Who is at the other end of a socket. The kernel says so, and nobody can say otherwise.

use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tokio::net::UnixStream;

/// Whose connections are accepted.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    own: u32,
    also: Vec<u32>,
}

impl Peers {
    pub(super) fn new(also: Vec<u32>) -> Self {
        Self { own: rustix::process::geteuid().as_raw(), also }
    }

    /// Whether this one may come in. Root could become us anyway, but has no business here.
    pub(super) fn admit(&self, stream: &UnixStream) -> bool {
        admit_if(stream, |uid, _| self.admits(uid))
    }

    fn admits(&self, uid: u32) -> bool {
        uid == self.own || self.also.contains(&uid)
    }
}

/// Whether whoever connects is one of these, by user and first group.
pub(super) fn admit_if(stream: &UnixStream, is_one: impl FnOnce(u32, u32) -> bool) -> bool {
    match stream.peer_cred() {
        Ok(peer) if is_one(peer.uid(), peer.gid()) => {
            tracing::debug!(uid = peer.uid(), pid = peer.pid(), "somebody connects");
            true
        }
        Ok(peer) => {
            // The number of a process may be another's by now: it is for people who read logs.
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), "somebody else's connection is refused");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "a connection is refused because nobody knows whose it is");
            false
        }
    }
}

/// A connection to a socket of this user, behind which this user listens, or root.
///
/// # Errors
/// `ErrorKind::PermissionDenied` when the socket or its listener is somebody else's; else as connecting fails.
pub(super) async fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let own = rustix::process::geteuid().as_raw();
    let foreign = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let found = std::fs::symlink_metadata(path)?;
    if !found.file_type().is_socket() || found.uid() != own {
        return Err(foreign());
    }
    let stream = UnixStream::connect(path).await?;
    match stream.peer_cred()?.uid() {
        uid if uid == own || uid == 0 => Ok(stream),
        _ => Err(foreign()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_user_and_those_who_are_named_come_in() {
        let peers = Peers { own: 1000, also: vec![1001] };
        assert!(peers.admits(1000) && peers.admits(1001));
        assert!(!peers.admits(0) && !peers.admits(65534));
    }

    #[tokio::test]
    async fn a_connection_of_our_own_comes_in_and_a_stranger_does_not() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(Peers::new(Vec::new()).admit(&ours));
        let own = rustix::process::geteuid().as_raw();
        assert!(!Peers { own: own + 1, also: Vec::new() }.admit(&ours));
    }
}
