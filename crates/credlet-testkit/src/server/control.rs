//! State shared by the test's handle and the connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use rustls::server::ProducesTickets;
use tokio::sync::{mpsc, watch};

use super::answer::Endpoint;
use super::seen::SeenRequest;
use super::tls::{Tls, ticketer};
use crate::ca::TestIdentity;

/// A fault to inject instead of the normal response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultOrder {
    /// Respond with this status and a `metav1.Status` body.
    Status(u16),
    /// Reset the connection before a byte of the response.
    Cut,
    /// Announce a body, send half of it and close the connection without a TLS close_notify.
    CutMidBody,
    /// Never respond.
    Stall,
}

/// Counters of connections, handshakes and requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerCounts {
    /// TCP connections accepted.
    pub connections: usize,
    /// Open TCP connections.
    pub open_connections: usize,
    /// TLS handshakes completed, resumed ones among them.
    pub handshakes: usize,
    /// TLS handshakes in which the client resumed a session.
    pub resumed_handshakes: usize,
    /// TLS handshakes that failed.
    pub failed_handshakes: usize,
    /// Requests received up to their head.
    pub requests: usize,
}

/// A command to all connections.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    GoAway,
    Cut(Cut),
}

/// How a connection is closed abruptly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Closes the TCP stream without a TLS or HTTP shutdown, as a killed process does.
    Close,
    /// With a TCP reset.
    Reset,
}

#[derive(Default)]
pub(super) struct Access {
    pub(super) restricted: bool,
    /// Accepted tokens with the user's name.
    pub(super) tokens: BTreeMap<String, String>,
    pub(super) clients: BTreeSet<String>,
}

pub(super) struct Shared {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) counts: watch::Sender<ServerCounts>,
    pub(super) hanging: watch::Sender<bool>,
    pub(super) max_concurrent_streams: u32,
    tls: Mutex<(Tls, Arc<ServerConfig>)>,
    ticketer: Arc<dyn ProducesTickets>,
    access: Mutex<Access>,
    orders: Mutex<VecDeque<FaultOrder>>,
    seen: Mutex<Vec<SeenRequest>>,
    live: Mutex<BTreeMap<usize, mpsc::UnboundedSender<Command>>>,
}

impl Shared {
    pub(super) fn new(tls: Tls, max_concurrent_streams: u32, endpoint: Option<Endpoint>) -> Self {
        let ticketer = ticketer();
        let config = tls.config(Arc::clone(&ticketer));
        Self {
            endpoint,
            counts: watch::Sender::default(),
            hanging: watch::Sender::default(),
            max_concurrent_streams,
            tls: Mutex::new((tls, config)),
            ticketer,
            access: Mutex::default(),
            orders: Mutex::default(),
            seen: Mutex::default(),
            live: Mutex::default(),
        }
    }

    pub(super) fn access(&self) -> MutexGuard<'_, Access> {
        lock(&self.access)
    }

    pub(super) fn orders(&self) -> MutexGuard<'_, VecDeque<FaultOrder>> {
        lock(&self.orders)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Vec<SeenRequest>> {
        lock(&self.seen)
    }

    /// Assigns a number to a request and stores it. The request is stored before the counter changes.
    pub(super) fn record(&self, mut request: SeenRequest) -> SeenRequest {
        let mut seen = self.seen();
        request.number = seen.len() + 1;
        seen.push(request.clone());
        drop(seen);
        self.counts.send_modify(|counts| counts.requests += 1);
        request
    }

    pub(super) fn tls(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.tls).1)
    }

    pub(super) fn rotate(&self, identity: TestIdentity) {
        let mut tls = lock(&self.tls);
        tls.0.identity = identity;
        tls.1 = tls.0.config(Arc::clone(&self.ticketer));
    }

    pub(super) fn tell_all(&self, command: Command) {
        for connection in lock(&self.live).values() {
            // The connection may have closed meanwhile.
            let _ = connection.send(command);
        }
    }

    /// Counts a new connection. It counts as closed when the returned guard is dropped.
    pub(super) fn join(self: &Arc<Self>) -> (Membership, mpsc::UnboundedReceiver<Command>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let mut number = 0;
        self.counts.send_modify(|counts| {
            counts.connections += 1;
            counts.open_connections += 1;
            number = counts.connections;
        });
        lock(&self.live).insert(number, commands.clone());
        (Membership { shared: Arc::clone(self), number, commands }, receiver)
    }
}

/// A connection's registration; deregisters on drop.
pub(super) struct Membership {
    pub(super) shared: Arc<Shared>,
    /// Number of the connection, from 1.
    pub(super) number: usize,
    /// Receives the commands for this connection.
    pub(super) commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        lock(&self.shared.live).remove(&self.number);
        self.shared.counts.send_modify(|counts| counts.open_connections -= 1);
    }
}

/// Ignores poisoning: a test that panicked while it held the lock must not panic a second time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
