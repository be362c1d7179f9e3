//! Authentication of the peers of local sockets by the identity that the kernel reports.

use credlet_platform::account::effective_user_id;
use credlet_platform::local_socket::LocalStream;

/// User ids that are allowed to connect.
#[derive(Clone, Debug)]
pub(super) struct AllowedPeers {
    own: u32,
    also: Vec<u32>,
}

impl AllowedPeers {
    pub(super) fn new(also: Vec<u32>) -> Self {
        Self { own: effective_user_id(), also }
    }

    /// Returns the user id of the peer if it is allowed. Root is not: it can become this user.
    pub(super) fn admit(&self, stream: &LocalStream) -> Option<u32> {
        admit_if(stream, |uid, _| self.admits(uid))
    }

    fn admits(&self, uid: u32) -> bool {
        uid == self.own || self.also.contains(&uid)
    }
}

/// Returns the user id of the peer if `is_one` accepts its user and primary group.
pub(super) fn admit_if(stream: &LocalStream, is_one: impl FnOnce(u32, u32) -> bool) -> Option<u32> {
    match stream.peer() {
        Ok(peer) if is_one(peer.user, peer.group) => {
            tracing::debug!(uid = peer.user, pid = peer.process, "accepted connection");
            Some(peer.user)
        }
        Ok(peer) => {
            // The process id may have been reused and is only for the log.
            tracing::warn!(uid = peer.user, pid = peer.process, "rejected connection of another user");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "rejected connection: peer credentials unavailable");
            None
        }
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
        let (ours, _theirs) = LocalStream::pair().unwrap();
        assert!(AllowedPeers::new(Vec::new()).admit(&ours).is_some());
        let own = effective_user_id();
        assert!(AllowedPeers { own: own + 1, also: Vec::new() }.admit(&ours).is_none());
    }
}
