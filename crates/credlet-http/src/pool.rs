use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response, Version};
use http_body::Body as _;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::oneshot;

use super::body::{ConnectionLease, RequestBody, ResponseBody};
use super::conn_state::{ConnIo, ConnState};
use super::dial::{AlpnOffer, Dialer, SelectedProtocol};
use super::h2_connection::{
    CloseGuard, ConnectionDriver, H2Connection, NegotiatedProtocol, PeerStreamLimit, StreamSlot, UNSET,
};
use super::h2_io_task::CaptureExecutor;
use super::http1::{Http1Pool, SoloPermit};
use super::retry::{DeliveryState, FailedAttempt};
use super::{HttpError, HttpTuning};

/// Connections of one credential generation.
///
/// hyper-util's pool uses one HTTP/2 connection per host and stalls at the peer's stream limit, dials once per caller, and
/// loses requests on GOAWAY.
pub(super) struct ConnectionPool {
    pub(super) dialer: Arc<Dialer>,
    tuning: HttpTuning,
    http1: Http1Pool,
    /// The server selected HTTP/1.1, or HTTP/2 cannot be negotiated.
    http1_only: AtomicBool,
    /// The server rejected HTTP/1.1.
    http1_rejected: AtomicBool,
    /// A [`SoloPermit`] is taken.
    solo_taken: Arc<AtomicBool>,
    retired: AtomicBool,
    peer_limit: Arc<PeerStreamLimit>,
    /// Oldest first. Requests use the first one with a free stream, so that the newest become idle and close.
    conns: Mutex<Vec<Arc<H2Connection>>>,
}

impl ConnectionPool {
    pub(super) fn new(dialer: Dialer, tuning: HttpTuning, peer_limit: Arc<PeerStreamLimit>) -> Arc<Self> {
        let dialer = Arc::new(dialer);
        Arc::new(Self {
            http1: Http1Pool::new(dialer.clone(), &tuning),
            http1_only: AtomicBool::new(dialer.tls.is_none() || !tuning.http2),
            http1_rejected: AtomicBool::new(false),
            solo_taken: Arc::default(),
            dialer,
            tuning,
            retired: AtomicBool::new(false),
            peer_limit,
            conns: Mutex::default(),
        })
    }

    /// Makes one attempt. The caller decides about a retry, which uses the generation that is current then.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        mut request: Request<RequestBody>,
        upgrade: bool,
    ) -> Result<Response<ResponseBody>, FailedAttempt> {
        loop {
            if upgrade || self.http1_only.load(Acquire) {
                return self.http1.attempt(request, upgrade, None).await;
            }
            if let Some(permit) = self.solo_permit(&request) {
                match self.http1.attempt(request, false, Some(permit)).await {
                    // The server may support HTTP/2 only. If the handshake failed for another reason, the HTTP/2
                    // attempt fails as well and reports it.
                    Err(FailedAttempt { error: HttpError::Handshake { .. }, request: Some(unsent), .. }) => {
                        self.http1_rejected.store(true, Relaxed);
                        request = unsent;
                    }
                    result => return result,
                }
            }
            let Some(slot) = self.reserve() else { return Err(self.unsent(request)) };
            match slot.conn.ready.wait().await.clone() {
                Err(error) => return Err(FailedAttempt::not_connected(error, request)),
                Ok(NegotiatedProtocol::Http1) => continue,
                Ok(NegotiatedProtocol::Http2(state)) => {
                    if slot.index >= slot.conn.eager {
                        if !slot.conn.status.settings_received().await {
                            return Err(FailedAttempt::connection_closed(state.closed_error(), request, false));
                        }
                        if slot.index >= slot.conn.status.max_streams() {
                            continue;
                        }
                    }
                    if self.retired.load(Relaxed) {
                        return Err(self.unsent(request));
                    }
                    return send(request, state, slot).await;
                }
            }
        }
    }

    /// A permit to use HTTP/1.1, only for requests that are safe to retry: an HTTP/1.1 server closes connections
    /// without notice.
    fn solo_permit(&self, request: &Request<RequestBody>) -> Option<SoloPermit> {
        let enabled = self.tuning.prefer_http1_when_idle && !self.http1_rejected.load(Relaxed);
        let suitable = enabled && request.method().is_safe() && request.body().is_end_stream();
        if suitable { SoloPermit::new(&self.solo_taken) } else { None }
    }

    /// Opens a connection for a later attempt, unless there is one.
    pub(super) async fn connect(self: &Arc<Self>, upgrade: bool) -> Result<(), HttpError> {
        let mut slot = None;
        if !upgrade && !self.http1_only.load(Acquire) {
            // A retired pool is detected by the attempt.
            let Some(reserved) = self.reserve() else { return Ok(()) };
            if let Some(Ok(NegotiatedProtocol::Http2(_))) = reserved.conn.ready.get() {
                return Ok(());
            }
            slot = Some(reserved);
        }
        // In a separate task: the connection serves other callers as well, and signing for it may block.
        let pool = Arc::clone(self);
        let (done, connected) = oneshot::channel();
        tokio::spawn(async move {
            let ready = match slot {
                Some(slot) => slot.conn.ready.wait().await.clone(),
                None => Ok(NegotiatedProtocol::Http1),
            };
            let result = match ready {
                Ok(NegotiatedProtocol::Http1) => pool.http1.warm_up(|| !done.is_closed()).await,
                other => other.map(drop),
            };
            let _ = done.send(result);
        });
        connected.await.map_err(|_| HttpError::Canceled { host: self.dialer.server.name().clone() })?
    }

    /// Rejects new requests and closes idle connections. The others close when their last request has completed.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
        self.conns().clear();
        self.http1.retire();
    }

    fn conns(&self) -> MutexGuard<'_, Vec<Arc<H2Connection>>> {
        self.conns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsent(&self, request: Request<RequestBody>) -> FailedAttempt {
        FailedAttempt::unsent(HttpError::Canceled { host: self.dialer.server.name().clone() }, request)
    }

    /// Reserves a stream on the first connection that has one, or on a new connection. Returns `None` if the pool is
    /// retired.
    fn reserve(self: &Arc<Self>) -> Option<StreamSlot> {
        let mut conns = self.conns();
        // Checked under the lock, so that nothing is added after `retire` has cleared the list.
        if self.retired.load(Relaxed) {
            return None;
        }
        conns.retain(|conn| !conn.status.is_closed());
        if let Some(slot) = conns.iter().find_map(H2Connection::reserve) {
            return Some(slot);
        }
        let conn = H2Connection::new(self.dialer.clock.clone(), &self.peer_limit, self.tuning.max_streams());
        let slot = conn.reserve();
        conns.push(conn.clone());
        drop(conns);
        self.open(conn);
        slot
    }

    /// Opens the connection in a separate task, so that a canceled caller does not affect the others.
    fn open(self: &Arc<Self>, conn: Arc<H2Connection>) {
        let (pool, dialer) = (Arc::downgrade(self), self.dialer.clone());
        let (tuning, peer_limit) = (self.tuning.clone(), self.peer_limit.clone());
        let attempt = DialGuard { conn, host: dialer.server.name().clone() };
        tokio::spawn(async move {
            match dialer.dial(AlpnOffer::Any).await {
                Err(error) => attempt.conn.set_failed(error),
                Ok((io, SelectedProtocol::Http1)) => {
                    if let Some(pool) = pool.upgrade() {
                        // In this order: a request that sees `http1_only` finds the connection.
                        pool.http1.add_spare(io);
                        pool.http1_only.store(true, Release);
                    }
                    let _ = attempt.conn.ready.set(Ok(NegotiatedProtocol::Http1));
                    attempt.conn.status.set_closed();
                }
                Ok((io, SelectedProtocol::Http2)) => {
                    start_http2(io, &dialer, &tuning, peer_limit, &attempt.conn, pool).await;
                }
            }
        });
    }

    /// Removes the connection if it has been idle for the idle timeout, and returns `None`; it then closes. Otherwise
    /// returns the time until the next check.
    fn close_if_idle(&self, conn: &Weak<H2Connection>) -> Option<Duration> {
        let mut conns = self.conns();
        let conn = conn.upgrade()?;
        let timeout = self.tuning.idle_timeout;
        match conn.idle() {
            None => Some(timeout),
            Some(idle) if idle < timeout => Some(timeout - idle),
            Some(_) => {
                conns.retain(|other| !Arc::ptr_eq(other, &conn));
                None
            }
        }
    }
}

/// Fails the connection on drop if its task was dropped before it set a result.
struct DialGuard {
    conn: Arc<H2Connection>,
    host: Arc<str>,
}

impl Drop for DialGuard {
    fn drop(&mut self) {
        if self.conn.ready.get().is_none() {
            self.conn.set_failed(HttpError::Canceled { host: self.host.clone() });
        }
    }
}

/// Performs the HTTP/2 handshake and spawns the task that drives the connection.
async fn start_http2(
    io: ConnIo,
    dialer: &Dialer,
    tuning: &HttpTuning,
    peer_limit: Arc<PeerStreamLimit>,
    conn: &Arc<H2Connection>,
    pool: Weak<ConnectionPool>,
) {
    let state = io.state().clone();
    let (executor, captured) = CaptureExecutor::new();
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .initial_max_send_streams(UNSET)
        .initial_stream_window_size(tuning.stream_window)
        .initial_connection_window_size(tuning.connection_window)
        .max_header_list_size(tuning.max_header_list_size)
        // h2 counts late frames for canceled requests as local errors, and by default closes the connection after 1000
        // of them in its lifetime.
        .max_local_error_reset_streams(None);
    if let Some(ping) = &tuning.ping {
        builder.keep_alive_interval(ping.interval).keep_alive_timeout(ping.timeout).keep_alive_while_idle(true);
    }
    let (sender, connection) = match builder.handshake(TokioIo::new(io)).await {
        Ok(pair) => pair,
        Err(error) => return conn.set_failed(state.classify(error)),
    };
    let driver = ConnectionDriver {
        connection: Box::pin(connection),
        io_task: captured.into_io_task(),
        close_guard: CloseGuard::new(conn),
        state: state.clone(),
        timeouts: dialer.timeouts.clone(),
        clock: dialer.clock.clone(),
        max_streams: tuning.max_streams(),
        peer_limit,
    };
    // Both weak: the task waits until the sender is dropped, so it must not hold it.
    let weak = Arc::downgrade(conn);
    conn.set_open(sender, state);
    tokio::spawn(driver.run(move || pool.upgrade()?.close_if_idle(&weak)));
}

async fn send(
    mut request: Request<RequestBody>,
    state: Arc<ConnState>,
    slot: StreamSlot,
) -> Result<Response<ResponseBody>, FailedAttempt> {
    *request.version_mut() = Version::HTTP_2;
    let Some(mut sender) = slot.conn.sender() else {
        let has_settings = slot.conn.status.has_settings();
        return Err(FailedAttempt::connection_closed(state.closed_error(), request, has_settings));
    };
    let written = state.written();
    let response = sender.try_send_request(request);
    drop(sender);
    match response.await {
        Ok(response) => {
            state.set_proven();
            Ok(response.map(|body| ResponseBody::new(body, state, Some(ConnectionLease::Http2(slot)))))
        }
        Err(mut error) => {
            if let Some(request) = error.take_message() {
                let has_settings = slot.conn.status.has_settings();
                // The connection is closing, which hyper reports only when a request is sent.
                slot.conn.status.set_closed();
                let error = state.classify(error.into_error());
                return Err(FailedAttempt::connection_closed(error, request, has_settings));
            }
            let error = error.into_error();
            let delivery = DeliveryState::of(&error, state.is_proven(), state.written() == written);
            Err(FailedAttempt { error: state.classify(error), delivery, request: None })
        }
    }
}
