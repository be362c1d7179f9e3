use std::time::Duration;

use credlet_platform::Clock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// All connections of one credential generation. It counts them and can close them together.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionGroup {
    close: CancellationToken,
    open: TaskTracker,
}

impl ConnectionGroup {
    /// Counts a connection as open until the token is dropped.
    pub(super) fn register(&self) -> TaskTrackerToken {
        self.open.token()
    }

    /// The number of open connections.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// A token that closes one connection and is canceled together with the group.
    pub(super) fn child_token(&self) -> CancellationToken {
        self.close.child_token()
    }

    /// Completes when the connections are to be closed.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }

    /// Whether the connections were closed by [`drain`](Self::drain).
    pub(super) fn is_closed(&self) -> bool {
        self.close.is_cancelled()
    }

    /// Waits until the last connection has closed, at most for `timeout`, and closes the remaining ones.
    pub(super) async fn drain(self, timeout: Duration, clock: &dyn Clock) {
        self.open.close();
        tokio::select! {
            () = self.open.wait() => {}
            () = clock.sleep(timeout) => {
                tracing::debug!(connections = self.len(), "drain timeout expired");
            }
        }
        self.close.cancel();
    }
}
