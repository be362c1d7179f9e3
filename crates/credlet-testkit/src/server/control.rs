//! What the test's handle and the connections share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use rustls::server::ProducesTickets;
use tokio::sync::{mpsc, watch};

use super::answer::Endpoint;
use super::seen::Seen;
use super::tls::{Tls, ticketer};
use crate::ca::Identity;

/// What to do with a request instead of answering it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Answer with this status and a `metav1.Status` that says so.
    Status(u16),
    /// Reset the connection before a byte of the response.
    Cut,
    /// Promise a body, send half of it, and close the connection without ending TLS.
    CutMidBody,
    /// Never answer.
    Stall,
}

/// How often things happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// TCP connections accepted.
    pub connections: usize,
    /// Of these, not yet closed.
    pub open_connections: usize,
    /// TLS handshakes completed, resumed ones among them.
    pub handshakes: usize,
    /// TLS handshakes in which the client resumed a session.
    pub resumed_handshakes: usize,
    /// TLS handshakes that failed.
    pub failed_handshakes: usize,
    /// Requests whose head arrived.
    pub requests: usize,
}

/// Told to a connection from outside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    GoAway,
    Cut(Cut),
}

/// How a connection ends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// As if the process had died: the stream ends, without a word from TLS or HTTP.
    Close,
    /// With a TCP reset.
    Reset,
}

#[derive(Default)]
pub(super) struct Access {
    pub(super) restricted: bool,
    /// With the user's name.
    pub(super) tokens: BTreeMap<String, String>,
    pub(super) clients: BTreeSet<String>,
}

pub(super) struct Shared {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) counts: watch::Sender<Counts>,
    pub(super) hanging: watch::Sender<bool>,
    pub(super) max_concurrent_streams: u32,
    tls: Mutex<(Tls, Arc<ServerConfig>)>,
    ticketer: Arc<dyn ProducesTickets>,
    access: Mutex<Access>,
    orders: Mutex<VecDeque<Order>>,
    seen: Mutex<Vec<Seen>>,
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

    pub(super) fn orders(&self) -> MutexGuard<'_, VecDeque<Order>> {
        lock(&self.orders)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        lock(&self.seen)
    }

    /// Numbers a request and keeps it. Who hears of the new count finds the request already there.
    pub(super) fn record(&self, mut request: Seen) -> Seen {
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

    pub(super) fn rotate(&self, identity: Identity) {
        let mut tls = lock(&self.tls);
        tls.0.identity = identity;
        tls.1 = tls.0.config(Arc::clone(&self.ticketer));
    }

    pub(super) fn tell_all(&self, command: Command) {
        for connection in lock(&self.live).values() {
            // One that has just ended needs no telling.
            let _ = connection.send(command);
        }
    }

    /// Counts a new connection; when what it returns is dropped the connection counts as closed.
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

/// A connection's place among the others.
pub(super) struct Membership {
    pub(super) shared: Arc<Shared>,
    /// The first is 1.
    pub(super) number: usize,
    /// To itself.
    pub(super) commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        lock(&self.shared.live).remove(&self.number);
        self.shared.counts.send_modify(|counts| counts.open_connections -= 1);
    }
}

/// A test that panics while it holds one must not hide its reason behind another panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
