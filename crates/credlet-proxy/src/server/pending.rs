//! Limits on connections that have not authenticated or not sent a request yet.
//!
//! Every local user can connect to the port, and every member of a group to a shared socket. Without limits their idle
//! connections could use up the file descriptors of the proxy.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use credlet_platform::daemon::open_file_limit;
use credlet_platform::peer::{PeerOwner, query_tcp_peer_owner, tcp_peer_owners};
use tokio::task::AbortHandle;

/// Concurrent handshakes of one listener.
const MAX_HANDSHAKES: u64 = 256;

/// Connections to the port whose owning user is not known yet.
const MAX_UNCHECKED: u64 = 4096;

/// Connections of one user other than the proxy's user.
const MAX_PER_USER: u64 = 1024;

/// Connection limits, each a fraction of the process's limit on file descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    pub(super) handshakes: usize,
    pub(super) unchecked: usize,
    pub(super) per_user: usize,
}

impl ConnectionLimits {
    pub(super) fn of_this_process() -> Self {
        Self::for_files(open_file_limit())
    }

    fn for_files(files: u64) -> Self {
        let part = |most: u64| usize::try_from(most.min(files / 8).max(4)).unwrap_or(usize::MAX);
        Self { handshakes: part(MAX_HANDSHAKES), unchecked: part(MAX_UNCHECKED), per_user: part(MAX_PER_USER) }
    }
}

/// Pending connections of one listener. Above the limit, the oldest is closed.
#[derive(Debug)]
pub(super) struct PendingConnections {
    limit: usize,
    state: Mutex<PendingState>,
}

#[derive(Debug, Default)]
struct PendingState {
    next: u64,
    /// Ordered by age.
    tasks: BTreeMap<u64, Arc<OnceLock<AbortHandle>>>,
}

impl PendingConnections {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    /// Returns a slot for a new connection. The caller sets its task with [`SlotTask::set`] after spawning it.
    pub(super) fn enter(self: &Arc<Self>) -> (PendingSlot, SlotTask) {
        let task = Arc::<OnceLock<AbortHandle>>::default();
        (self.slot(Arc::clone(&task), None), SlotTask(task))
    }

    fn slot(self: &Arc<Self>, task: Arc<OnceLock<AbortHandle>>, share: Option<QuotaShare>) -> PendingSlot {
        let mut state = self.state();
        while state.tasks.len() >= self.limit && state.evict_oldest() {}
        let id = state.next;
        state.next += 1;
        state.tasks.insert(id, Arc::clone(&task));
        let is_released = AtomicBool::new(false);
        PendingSlot(Box::new(SlotInner { pending: Arc::clone(self), id, task, is_released, share }))
    }

    /// Closes the oldest pending connection.
    pub(super) fn evict_oldest(&self) {
        self.state().evict_oldest();
    }

    fn state(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingState {
    /// Returns false if there is none.
    fn evict_oldest(&mut self) -> bool {
        let Some((_, task)) = self.tasks.pop_first() else { return false };
        if let Some(task) = task.get() {
            tracing::debug!("closed oldest pending connection: limit reached");
            task.abort();
        }
        true
    }
}

/// Sets the task of a pending connection.
#[derive(Debug)]
pub(super) struct SlotTask(Arc<OnceLock<AbortHandle>>);

impl SlotTask {
    pub(super) fn set(self, task: AbortHandle) {
        let _ = self.0.set(task);
    }
}

/// A connection is pending until its slot is released or dropped. Boxed to keep connections small.
#[derive(Debug)]
pub(super) struct PendingSlot(Box<SlotInner>);

#[derive(Debug)]
struct SlotInner {
    pending: Arc<PendingConnections>,
    id: u64,
    task: Arc<OnceLock<AbortHandle>>,
    is_released: AtomicBool,
    /// Held until the connection closes.
    share: Option<QuotaShare>,
}

impl PendingSlot {
    /// Also counts the connection against a user's quota.
    pub(super) fn with(mut self, share: Option<QuotaShare>) -> Self {
        self.0.share = share;
        self
    }

    /// Called when the connection is authenticated or has sent its first request.
    pub(super) fn release(&self) {
        self.0.release();
    }

    /// Moves the connection to another set of pending connections.
    pub(super) fn move_to(&mut self, pending: &Arc<PendingConnections>) {
        let share = self.0.share.take();
        *self = pending.slot(Arc::clone(&self.0.task), share);
    }
}

impl SlotInner {
    fn release(&self) {
        if !self.is_released.load(Ordering::Relaxed) && !self.is_released.swap(true, Ordering::Relaxed) {
            self.pending.state().tasks.remove(&self.id);
        }
    }
}

impl Drop for SlotInner {
    fn drop(&mut self) {
        self.release();
    }
}

/// Limits the connections of each user other than the proxy's user.
#[derive(Debug)]
pub(super) struct UserQuota {
    limit: usize,
    open: Mutex<HashMap<u32, usize>>,
}

impl UserQuota {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default() })
    }

    /// Counts a connection of this user until the result is dropped. Returns `None` at the limit.
    pub(super) fn take(self: &Arc<Self>, uid: u32) -> Option<QuotaShare> {
        let mut open = self.open();
        let count = open.entry(uid).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(QuotaShare { quota: Arc::clone(self), uid })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct QuotaShare {
    quota: Arc<UserQuota>,
    uid: u32,
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        let mut open = self.quota.open();
        if let Some(count) = open.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.uid);
            }
        }
    }
}

/// Looks up the owning users of connections to a local port.
#[derive(Debug)]
pub(super) struct PeerOwners {
    local: SocketAddr,
    /// Number of lookups.
    lookups: AtomicU64,
    last: tokio::sync::Mutex<OwnerSnapshot>,
    has_warned: AtomicBool,
}

#[derive(Debug, Default)]
struct OwnerSnapshot {
    /// Valid for lookups with a lower number, which started before it was taken.
    covers: u64,
    /// `None` if the system does not provide owners.
    owners: Option<HashMap<SocketAddr, PeerOwner>>,
}

impl PeerOwners {
    pub(super) fn new(local: SocketAddr) -> Self {
        let (lookups, last, has_warned) = (AtomicU64::new(0), Default::default(), AtomicBool::new(false));
        Self { local, lookups, last, has_warned }
    }

    /// Whether the connection belongs to another user, except root. Returns false if the system does not tell: the TLS
    /// handshake authenticates clients, and this check only saves file descriptors.
    pub(super) async fn is_foreign(&self, remote: SocketAddr) -> bool {
        let owner = match query_tcp_peer_owner(self.local, remote) {
            None => self.look_up(remote).await,
            queried => queried,
        };
        // The table may lack the row of an open connection, or the connection may be closed.
        let Some(PeerOwner::User(uid)) = owner else { return false };
        if PeerOwner::User(uid).may_be_this_user() {
            return false;
        }
        // Warn once, so that another user cannot fill the log.
        match self.has_warned.swap(true, Ordering::Relaxed) {
            false => tracing::warn!(uid, "rejected connection of another user to the port"),
            true => tracing::debug!(uid, "rejected connection of another user to the port"),
        }
        true
    }

    /// Reads the kernel's table of connections, which is slow. Concurrent lookups share one read.
    async fn look_up(&self, remote: SocketAddr) -> Option<PeerOwner> {
        let number = self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.covers <= number {
            let (covers, local) = (self.lookups.load(Ordering::SeqCst), self.local);
            let read = tokio::task::spawn_blocking(move || tcp_peer_owners(local));
            *last = OwnerSnapshot { covers, owners: read.await.ok().flatten() };
        }
        last.owners.as_ref().and_then(|owners| owners.get(&remote)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until it is evicted.
    fn wait(pending: &Arc<PendingConnections>) -> tokio::task::JoinHandle<()> {
        let (slot, task) = pending.enter();
        let waiting = tokio::spawn(async move {
            let _slot = slot;
            std::future::pending::<()>().await;
        });
        task.set(waiting.abort_handle());
        waiting
    }

    /// Fails instead of hanging.
    async fn is_evicted(connection: tokio::task::JoinHandle<()>) -> bool {
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), connection).await;
        ended.unwrap().unwrap_err().is_cancelled()
    }

    #[tokio::test]
    async fn evicts_oldest_pending_connection() {
        let pending = PendingConnections::new(2);
        let (released, task) = pending.enter();
        let serving = tokio::spawn(std::future::pending::<()>());
        task.set(serving.abort_handle());
        released.release();
        let [first, second, third] = [(); 3].map(|()| wait(&pending));
        assert!(is_evicted(first).await);
        pending.evict_oldest();
        assert!(is_evicted(second).await);
        tokio::task::yield_now().await;
        assert!(!third.is_finished() && !serving.is_finished(), "what is served is not pending");
    }

    #[tokio::test]
    async fn moved_slot_counts_elsewhere() {
        let (unchecked, handshakes) = (PendingConnections::new(1), PendingConnections::new(1));
        let (mut slot, task) = unchecked.enter();
        let waiting = tokio::spawn(std::future::pending::<()>());
        task.set(waiting.abort_handle());
        slot.move_to(&handshakes);
        let _next = unchecked.enter();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let _other = handshakes.enter();
        assert!(is_evicted(waiting).await);
    }

    // Other systems do not report owners.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    #[tokio::test]
    async fn own_connections_are_not_foreign() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let owners = PeerOwners::new(local);
        let clients = [(); 8].map(|()| std::net::TcpStream::connect(local).unwrap());
        let own = PeerOwner::User(rustix::process::geteuid().as_raw());
        for client in &clients {
            let remote = client.local_addr().unwrap();
            assert_eq!(owners.look_up(remote).await, Some(own));
            assert!(!owners.is_foreign(remote).await);
        }
    }

    #[test]
    fn limits_scale_with_open_files() {
        let few = ConnectionLimits::for_files(256);
        assert_eq!((few.handshakes, few.unchecked, few.per_user), (32, 32, 32));
        let many = ConnectionLimits::for_files(1 << 16);
        assert_eq!((many.handshakes, many.unchecked, many.per_user), (256, 4096, 1024));
    }

    #[test]
    fn quota_is_counted_per_user() {
        let quota = UserQuota::new(2);
        let shares = [quota.take(1).unwrap(), quota.take(1).unwrap()];
        assert!(quota.take(1).is_none() && quota.take(2).is_some());
        drop(shares);
        assert!(quota.take(1).is_some());
    }
}
