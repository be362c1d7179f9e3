//! State shared by the handle of the server and the connections.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::ProducesTickets;
use tokio::sync::{mpsc, watch};

use super::record::RecordedRequest;
use super::tls::{TlsSettings, ticketer};
use super::{Handler, ResponseLog, StartError};
use crate::authn::Authenticator;
use crate::ca::Identity;

/// A fault to inject instead of the normal response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Respond with this status and a `Status` object. An invalid status code becomes 500.
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
    /// TLS handshakes that failed or timed out.
    pub failed_handshakes: usize,
    /// Requests received up to their head.
    pub requests: usize,
}

/// A command to a connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum ConnectionCommand {
    GoAway,
    Cut(CutMode),
}

/// How a connection is closed abruptly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CutMode {
    /// Closes the TCP stream without a TLS or HTTP shutdown, as a killed process does.
    Close,
    /// With a TCP reset.
    Reset,
}

/// Settings that do not change while the server runs.
pub(super) struct ServerSettings {
    pub(super) authenticator: Box<dyn Authenticator>,
    pub(super) handler: Box<dyn Handler>,
    pub(super) log: Option<Box<ResponseLog>>,
    pub(super) record_requests: bool,
    pub(super) max_concurrent_streams: u32,
    pub(super) handshake_timeout: Option<Duration>,
}

pub(super) struct SharedState {
    pub(super) settings: ServerSettings,
    pub(super) counts: watch::Sender<ServerCounts>,
    pub(super) holding_handshakes: watch::Sender<bool>,
    /// Whether a request panicked. HTTP/2 requests run in tasks of their own, which hyper does not join.
    pub(super) panicked: watch::Sender<bool>,
    tls: Mutex<(TlsSettings, Arc<ServerConfig>)>,
    ticketer: Arc<dyn ProducesTickets>,
    faults: Mutex<VecDeque<Fault>>,
    recorded: Mutex<RecordedRequests>,
    live: Mutex<BTreeMap<usize, mpsc::UnboundedSender<ConnectionCommand>>>,
}

/// The requests so far. Their number increases even if they are not stored.
#[derive(Default)]
pub(super) struct RecordedRequests {
    pub(super) count: usize,
    pub(super) requests: Vec<RecordedRequest>,
}

impl SharedState {
    pub(super) fn new(tls: TlsSettings, settings: ServerSettings) -> Result<Self, StartError> {
        let ticketer = ticketer()?;
        let config = tls.config(Arc::clone(&ticketer))?;
        Ok(Self {
            settings,
            counts: watch::Sender::default(),
            holding_handshakes: watch::Sender::default(),
            panicked: watch::Sender::default(),
            tls: Mutex::new((tls, config)),
            ticketer,
            faults: Mutex::default(),
            recorded: Mutex::default(),
            live: Mutex::default(),
        })
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, VecDeque<Fault>> {
        lock(&self.faults)
    }

    pub(super) fn recorded(&self) -> MutexGuard<'_, RecordedRequests> {
        lock(&self.recorded)
    }

    /// Assigns a number to a request and stores it. The request is stored before the counter changes.
    pub(super) fn record(&self, mut request: RecordedRequest) -> RecordedRequest {
        let mut recorded = self.recorded();
        recorded.count += 1;
        request.number = recorded.count;
        if self.settings.record_requests {
            recorded.requests.push(request.clone());
        }
        drop(recorded);
        self.counts.send_modify(|counts| counts.requests += 1);
        request
    }

    pub(super) fn tls(&self) -> Arc<ServerConfig> {
        Arc::clone(&lock(&self.tls).1)
    }

    pub(super) fn rotate(&self, identity: Identity) -> Result<(), StartError> {
        let mut tls = lock(&self.tls);
        let previous = std::mem::replace(&mut tls.0.identity, identity);
        match tls.0.config(Arc::clone(&self.ticketer)) {
            Ok(config) => {
                tls.1 = config;
                Ok(())
            }
            Err(error) => {
                tls.0.identity = previous;
                Err(error)
            }
        }
    }

    pub(super) fn command_all(&self, command: ConnectionCommand) {
        for connection in lock(&self.live).values() {
            // The connection may have closed meanwhile.
            let _ = connection.send(command);
        }
    }

    /// Counts a new connection. It counts as closed when the returned guard is dropped.
    pub(super) fn register(self: &Arc<Self>) -> (ConnectionGuard, mpsc::UnboundedReceiver<ConnectionCommand>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let mut number = 0;
        self.counts.send_modify(|counts| {
            counts.connections += 1;
            counts.open_connections += 1;
            number = counts.connections;
        });
        lock(&self.live).insert(number, commands.clone());
        (ConnectionGuard { shared: Arc::clone(self), number, commands }, receiver)
    }
}

/// Registration of a connection; deregisters on drop.
pub(super) struct ConnectionGuard {
    pub(super) shared: Arc<SharedState>,
    /// Number of the connection, from 1.
    pub(super) number: usize,
    /// Sends commands to this connection.
    pub(super) commands: mpsc::UnboundedSender<ConnectionCommand>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        lock(&self.shared.live).remove(&self.number);
        self.shared.counts.send_modify(|counts| counts.open_connections -= 1);
    }
}

/// Ignores poisoning: a test that panicked while it held the lock must not panic a second time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
