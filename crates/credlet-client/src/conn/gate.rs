use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use credlet_core::Clock;

/// Through which all connections of one generation go: it counts them and can cut them off.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    cut: CancellationToken,
    live: TaskTracker,
}

impl Gate {
    /// Counts a connection until the token is dropped.
    pub(super) fn enter(&self) -> TaskTrackerToken {
        self.live.token()
    }

    /// How many connections are open.
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// A switch for one connection, which goes off with the gate's own.
    pub(super) fn stop(&self) -> CancellationToken {
        self.cut.child_token()
    }

    /// Returns when the connections are to be cut.
    pub(super) async fn cutting(&self) {
        self.cut.cancelled().await;
    }

    /// Whether it was we who ended the connections.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_cancelled()
    }

    /// Waits until the last connection has ended by itself, but no longer than `limit`, and cuts the rest.
    pub(super) async fn drain(self, limit: Duration, clock: &dyn Clock) {
        self.live.close();
        tokio::select! {
            () = self.live.wait() => {}
            () = clock.sleep(limit) => {
                tracing::debug!(connections = self.len(), "the drain limit is over");
            }
        }
        self.cut.cancel();
    }
}
