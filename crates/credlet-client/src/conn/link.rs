//! One HTTP/2 connection: who is on it, how many it takes, and whether it is still there.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use credlet_core::Clock;
use hyper::client::conn::http2::{Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::sync::SetOnce;

use super::body::Payload;
use super::line::{Io, Line};
use super::wire::{KeepWire, Wire};
use super::{Error, Limits};

/// Stands for "the server has not said yet". No server means exactly this number.
pub(super) const UNSET: usize = 0x00c0_ffee;

/// A connection in the pool, or one that is being made: it takes reservations from the start, so that a crowd of
/// callers needs few dials.
pub(super) struct Conn {
    used: AtomicUsize,
    /// When a place was last given back, by the monotonic clock.
    idle_since: AtomicU64,
    clock: Arc<dyn Clock>,
    /// So many requests do not wait until the server has said how many it takes.
    pub(super) eager: usize,
    pub(super) link: Arc<Link>,
    /// What has become of the dial.
    pub(super) ready: SetOnce<Result<Ready, Error>>,
    /// It lives here and nowhere else: when the pool and all slots have let go, the connection closes. And when the
    /// connection has ended it must go, although there are slots: a request that is just being put into its queue at
    /// that moment, and all behind it, come back only when the last sender is gone (tokio's channel stops emptying
    /// itself at a place that is reserved and not yet filled). Those who wait for them would wait for ever.
    sender: ArcSwapOption<SendRequest<Payload>>,
}

#[derive(Clone)]
pub(super) enum Ready {
    Http1,
    Http2(Arc<Line>),
}

/// What the task that drives a connection shares with it.
pub(super) struct Link {
    /// How many requests the server takes at once.
    max: AtomicUsize,
    gone: AtomicBool,
    /// Whether the server has said how many, or was gone before.
    settled: SetOnce<bool>,
}

impl Conn {
    pub(super) fn new(clock: Arc<dyn Clock>, usual: &Usual, cap: usize) -> Arc<Self> {
        let link = Link {
            max: AtomicUsize::new(usual.assumed().min(cap)),
            gone: AtomicBool::new(false),
            settled: SetOnce::new(),
        };
        Arc::new(Self {
            used: AtomicUsize::new(0),
            idle_since: AtomicU64::new(millis(clock.monotonic())),
            clock,
            eager: usual.eager(),
            link: Arc::new(link),
            ready: SetOnce::new(),
            sender: ArcSwapOption::empty(),
        })
    }

    /// A place, if there is one. Only under the pool's lock, or two might take the last one.
    pub(super) fn take(self: &Arc<Self>) -> Option<Slot> {
        let nth = self.used.load(Relaxed);
        (nth < self.link.max()).then(|| {
            self.used.fetch_add(1, Relaxed);
            Slot { conn: self.clone(), nth }
        })
    }

    /// For how long nobody has been on it. Under the pool's lock, so that nobody comes meanwhile.
    pub(super) fn idle(&self) -> Option<Duration> {
        let since = Duration::from_millis(self.idle_since.load(Relaxed));
        (self.used.load(Relaxed) == 0).then(|| self.clock.monotonic().saturating_sub(since))
    }

    /// There is a connection.
    pub(super) fn open(&self, sender: SendRequest<Payload>, line: Arc<Line>) {
        self.sender.store(Some(Arc::new(sender)));
        let _ = self.ready.set(Ok(Ready::Http2(line)));
    }

    /// `None`: the connection has ended. To be dropped before waiting for anything.
    pub(super) fn sender(&self) -> Option<SendRequest<Payload>> {
        self.sender.load().as_deref().cloned()
    }

    /// There will be no connection.
    pub(super) fn fail(&self, error: Error) {
        self.link.end();
        let _ = self.ready.set(Err(error));
    }
}

impl Link {
    pub(super) fn max(&self) -> usize {
        self.max.load(Relaxed)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Waits until the server has said how many requests it takes. False: it is gone and never did.
    pub(super) async fn settled(&self) -> bool {
        *self.settled.wait().await
    }

    /// Whether the server has said so already, now or before it went.
    pub(super) fn was_settled(&self) -> bool {
        self.settled.get() == Some(&true)
    }

    pub(super) fn end(&self) {
        self.gone.store(true, Relaxed);
        let _ = self.settled.set(false);
    }
}

/// A place on a connection, given back on drop.
pub(super) struct Slot {
    pub(super) conn: Arc<Conn>,
    /// How many were taken before this one.
    pub(super) nth: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.conn.idle_since.store(millis(self.conn.clock.monotonic()), Relaxed);
        self.conn.used.fetch_sub(1, Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Says that the connection is gone however its task ends: finished, panicked, or dropped with its runtime. Without it
/// those who wait for the server's word would wait for ever.
pub(super) struct Over {
    link: Arc<Link>,
    conn: Weak<Conn>,
}

impl Over {
    pub(super) fn of(conn: &Arc<Conn>) -> Self {
        Self { link: conn.link.clone(), conn: Arc::downgrade(conn) }
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.link.end();
        if let Some(conn) = self.conn.upgrade() {
            conn.sender.store(None);
        }
    }
}

/// How many requests the server took at once on the newest connection: what the next ones are likely to take. 0 before
/// the first.
#[derive(Debug, Default)]
pub(super) struct Usual(AtomicUsize);

impl Usual {
    /// Room for reservations. By default what API servers usually allow.
    fn assumed(&self) -> usize {
        match self.0.load(Relaxed) {
            0 => 100,
            known => known,
        }
    }

    /// How many requests may go out before the server has said how many it takes, which saves them a round trip. One
    /// too many would not be refused: if the server's word arrives just before it, it would wait in the HTTP
    /// library behind watches that never end. So it is one, until the server is known.
    fn eager(&self) -> usize {
        self.0.load(Relaxed).clamp(1, 16)
    }
}

/// Runs a connection to its end.
pub(super) struct Drive {
    /// In a box: a future that holds it by value stores it two or three times.
    pub(super) connection: Pin<Box<Connection<TokioIo<Io>, Payload, KeepWire>>>,
    pub(super) wire: Wire,
    /// After the connection: a field is dropped after those above it.
    pub(super) over: Over,
    pub(super) line: Arc<Line>,
    pub(super) limits: Limits,
    pub(super) clock: Arc<dyn Clock>,
    /// More streams than this could fill the connection's window and stop each other.
    pub(super) cap: usize,
    pub(super) usual: Arc<Usual>,
}

impl Drive {
    /// `closing` is asked whether to close for want of work, and says when to ask again; `None` is never.
    pub(super) async fn run(mut self, closing: impl Fn() -> Option<Duration>) {
        self.serve(closing).await;
        let Self { connection, mut wire, over, .. } = self;
        drop(connection);
        drop(over);
        // It takes no more requests; those on it have time to end.
        poll_fn(|cx| wire.poll(cx)).await;
    }

    /// As long as it takes requests.
    async fn serve(&mut self, closing: impl Fn() -> Option<Duration>) {
        let limit = self.limits.tls;
        let clock = self.clock.clone();
        let settled = tokio::select! {
            biased;
            settled = self.settle() => settled,
            () = clock.sleep(limit) => {
                self.line.give_up(format!("no HTTP/2 settings came within {} seconds", limit.as_secs_f32()));
                false
            }
        };
        if !settled {
            return;
        }
        self.usual.0.store(self.over.link.max(), Relaxed);
        let _ = self.over.link.settled.set(true);
        loop {
            let again = closing();
            let ended = poll_fn(|cx| {
                let ended = self.poll_ended(cx);
                self.note_max();
                ended
            });
            match again {
                None => return ended.await,
                Some(again) => tokio::select! {
                    biased;
                    () = ended => return,
                    () = clock.sleep(again) => {}
                },
            }
        }
    }

    /// First what puts requests on the connection, then what writes them.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = self.connection.as_mut().poll(cx);
        // Its end is learnt from the other half.
        let _ = self.wire.poll(cx);
        ended.map(drop)
    }

    /// The server's limit shows up in a number that nothing wakes us for, so look until it has changed: once per round
    /// trip and connection. False: the connection has ended before.
    async fn settle(&mut self) -> bool {
        let mut pause = Duration::from_millis(1);
        while self.connection.current_max_send_streams() == UNSET {
            tokio::select! {
                biased;
                () = poll_fn(|cx| self.poll_ended(cx)) => return false,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_millis(8)),
            }
        }
        self.note_max();
        true
    }

    fn note_max(&self) {
        let max = self.connection.current_max_send_streams().min(self.cap);
        self.over.link.max.store(max, Relaxed);
    }
}
