//! State of one HTTP/2 connection in the pool: reserved streams, the peer's stream limit, and the task that drives it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use credlet_platform::Clock;
use hyper::client::conn::http2::{Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::sync::SetOnce;

use super::body::RequestBody;
use super::conn_state::{ConnIo, ConnState};
use super::h2_io_task::{CaptureExecutor, H2IoTask};
use super::{ConnectTimeouts, HttpError};

/// Initial value of hyper's stream limit, a number that no server sends: as long as it is unchanged, the peer's SETTINGS
/// frame has not arrived.
pub(super) const UNSET: usize = 0x00c0_ffee;

/// An open connection, or one that is being opened. It takes reservations from the start, so that many concurrent callers
/// need few connections.
pub(super) struct H2Connection {
    reserved: AtomicUsize,
    /// Monotonic time in milliseconds of the last release of a stream.
    idle_since: AtomicU64,
    clock: Arc<dyn Clock>,
    /// Number of requests that may be sent before the peer's SETTINGS arrive.
    pub(super) eager: usize,
    pub(super) status: Arc<H2Status>,
    /// Result of the connection attempt.
    pub(super) ready: SetOnce<Result<NegotiatedProtocol, HttpError>>,
    /// The only sender besides short-lived clones, so the connection closes when the pool and all slots have dropped it.
    ///
    /// It is removed as soon as the connection has closed, even while there are slots: tokio's channel does not return
    /// queued requests behind a reserved, unfilled position until the last sender is dropped, and their callers would wait
    /// indefinitely.
    sender: ArcSwapOption<SendRequest<RequestBody>>,
}

/// Protocol that the peer selected.
#[derive(Clone)]
pub(super) enum NegotiatedProtocol {
    Http1,
    Http2(Arc<ConnState>),
}

/// State that a connection shares with the task that drives it.
pub(super) struct H2Status {
    /// Stream limit: the peer's, or the assumed one before its SETTINGS arrive.
    max_streams: AtomicUsize,
    closed: AtomicBool,
    /// Set to true when the peer's SETTINGS have arrived, to false when the connection closed before.
    settings: SetOnce<bool>,
}

impl H2Connection {
    pub(super) fn new(clock: Arc<dyn Clock>, peer_limit: &PeerStreamLimit, cap: usize) -> Arc<Self> {
        let status = H2Status {
            max_streams: AtomicUsize::new(peer_limit.assumed().min(cap)),
            closed: AtomicBool::new(false),
            settings: SetOnce::new(),
        };
        Arc::new(Self {
            reserved: AtomicUsize::new(0),
            idle_since: AtomicU64::new(millis(clock.monotonic())),
            clock,
            eager: peer_limit.eager(),
            status: Arc::new(status),
            ready: SetOnce::new(),
            sender: ArcSwapOption::empty(),
        })
    }

    /// Reserves a stream, if one is available. The caller must hold the pool's lock.
    pub(super) fn reserve(self: &Arc<Self>) -> Option<StreamSlot> {
        let index = self.reserved.load(Relaxed);
        (index < self.status.max_streams()).then(|| {
            self.reserved.fetch_add(1, Relaxed);
            StreamSlot { conn: self.clone(), index }
        })
    }

    /// Returns for how long no stream has been reserved. The caller must hold the pool's lock.
    pub(super) fn idle(&self) -> Option<Duration> {
        let since = Duration::from_millis(self.idle_since.load(Relaxed));
        (self.reserved.load(Relaxed) == 0).then(|| self.clock.monotonic().saturating_sub(since))
    }

    /// Marks the connection as open.
    pub(super) fn set_open(&self, sender: SendRequest<RequestBody>, state: Arc<ConnState>) {
        self.sender.store(Some(Arc::new(sender)));
        let _ = self.ready.set(Ok(NegotiatedProtocol::Http2(state)));
    }

    /// A sender, or `None` if the connection is closed. The caller must drop it before it awaits anything.
    pub(super) fn sender(&self) -> Option<SendRequest<RequestBody>> {
        self.sender.load().as_deref().cloned()
    }

    /// Marks the connection attempt as failed.
    pub(super) fn set_failed(&self, error: HttpError) {
        self.status.set_closed();
        let _ = self.ready.set(Err(error));
    }
}

impl H2Status {
    pub(super) fn max_streams(&self) -> usize {
        self.max_streams.load(Relaxed)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Waits for the peer's SETTINGS. Returns false if the connection closed before they arrived.
    pub(super) async fn settings_received(&self) -> bool {
        *self.settings.wait().await
    }

    /// Whether the peer's SETTINGS have arrived.
    pub(super) fn has_settings(&self) -> bool {
        self.settings.get() == Some(&true)
    }

    /// Marks the connection as closed for new requests.
    pub(super) fn set_closed(&self) {
        self.closed.store(true, Relaxed);
        let _ = self.settings.set(false);
    }
}

/// A reserved stream. It is released on drop.
pub(super) struct StreamSlot {
    pub(super) conn: Arc<H2Connection>,
    /// Number of streams that were reserved before this one.
    pub(super) index: usize,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.conn.idle_since.store(millis(self.conn.clock.monotonic()), Relaxed);
        self.conn.reserved.fetch_sub(1, Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Marks the connection as closed on drop: when its task completes, panics, or is dropped with the runtime. Otherwise
/// callers that wait for the peer's SETTINGS would wait indefinitely.
pub(super) struct CloseGuard {
    status: Arc<H2Status>,
    conn: Weak<H2Connection>,
}

impl CloseGuard {
    pub(super) fn new(conn: &Arc<H2Connection>) -> Self {
        Self { status: conn.status.clone(), conn: Arc::downgrade(conn) }
    }
}

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.status.set_closed();
        if let Some(conn) = self.conn.upgrade() {
            conn.sender.store(None);
        }
    }
}

/// `SETTINGS_MAX_CONCURRENT_STREAMS` of the newest connection, the estimate for the next one. 0 before the first.
#[derive(Debug, Default)]
pub(super) struct PeerStreamLimit(AtomicUsize);

impl PeerStreamLimit {
    /// The number of streams to reserve before SETTINGS arrive. Default: 100, the usual limit of API servers.
    fn assumed(&self) -> usize {
        match self.0.load(Relaxed) {
            0 => 100,
            known => known,
        }
    }

    /// The number of requests that may be sent before SETTINGS arrive, which saves them a round trip.
    ///
    /// A request beyond the limit is not always refused: if SETTINGS arrive just before it is sent, it waits in the HTTP
    /// library, possibly behind watches that never complete. So it is 1 until the server is known.
    fn eager(&self) -> usize {
        self.0.load(Relaxed).clamp(1, 16)
    }
}

/// Task that drives a connection until it closes.
pub(super) struct ConnectionDriver {
    /// Boxed: a future that holds it by value stores it two or three times.
    pub(super) connection: Pin<Box<Connection<TokioIo<ConnIo>, RequestBody, CaptureExecutor>>>,
    pub(super) io_task: H2IoTask,
    /// Declared after `connection`, so that it is dropped after it.
    pub(super) close_guard: CloseGuard,
    pub(super) state: Arc<ConnState>,
    pub(super) timeouts: ConnectTimeouts,
    pub(super) clock: Arc<dyn Clock>,
    /// Number of streams whose windows fit into the connection window. With more they could block each other.
    pub(super) max_streams: usize,
    pub(super) peer_limit: Arc<PeerStreamLimit>,
}

impl ConnectionDriver {
    /// Drives the connection. `close_if_idle` returns when to call it again, or `None` after it removed an idle
    /// connection from the pool.
    pub(super) async fn run(mut self, close_if_idle: impl Fn() -> Option<Duration>) {
        self.serve(close_if_idle).await;
        let Self { connection, mut io_task, close_guard, .. } = self;
        drop(connection);
        drop(close_guard);
        // No new requests are accepted; those in flight complete here.
        poll_fn(|cx| io_task.poll(cx)).await;
    }

    /// Drives the connection while it accepts requests.
    async fn serve(&mut self, close_if_idle: impl Fn() -> Option<Duration>) {
        let timeout = self.timeouts.tls;
        let clock = self.clock.clone();
        let received = tokio::select! {
            biased;
            received = self.wait_for_settings() => received,
            () = clock.sleep(timeout) => {
                self.state.close(format!("timed out waiting for HTTP/2 settings ({} s)", timeout.as_secs_f32()));
                false
            }
        };
        if !received {
            return;
        }
        self.peer_limit.0.store(self.close_guard.status.max_streams(), Relaxed);
        let _ = self.close_guard.status.settings.set(true);
        loop {
            let next_check = close_if_idle();
            let closed = poll_fn(|cx| {
                let closed = self.poll_closed(cx);
                self.update_max_streams();
                closed
            });
            match next_check {
                None => return closed.await,
                Some(next_check) => tokio::select! {
                    biased;
                    () = closed => return,
                    () = clock.sleep(next_check) => {}
                },
            }
        }
    }

    /// Polls the future that puts requests on the connection, then the one that writes them.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let closed = self.connection.as_mut().poll(cx);
        // Its completion is reported by the other future.
        let _ = self.io_task.poll(cx);
        closed.map(drop)
    }

    /// Waits for the peer's SETTINGS. Returns false if the connection closed before.
    ///
    /// hyper exposes the limit as a number without a notification, so this polls it: for one round trip per connection.
    async fn wait_for_settings(&mut self) -> bool {
        let mut interval = Duration::from_millis(1);
        while self.connection.current_max_send_streams() == UNSET {
            tokio::select! {
                biased;
                () = poll_fn(|cx| self.poll_closed(cx)) => return false,
                () = tokio::time::sleep(interval) => interval = (interval * 2).min(Duration::from_millis(8)),
            }
        }
        self.update_max_streams();
        true
    }

    fn update_max_streams(&self) {
        let max_streams = self.connection.current_max_send_streams().min(self.max_streams);
        self.close_guard.status.max_streams.store(max_streams, Relaxed);
    }
}
