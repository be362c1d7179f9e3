use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response, Version};
use http_body::Body as _;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::oneshot;

use super::body::{Body, Payload, Place};
use super::dial::{Dialler, Offer, Spoken};
use super::http1::{Http1, Lone};
use super::line::{Io, Line};
use super::link::{Conn, Drive, Over, Ready, Slot, UNSET, Usual};
use super::retry::{Failed, Failure};
use super::wire::KeepWire;
use super::{Error, Tuning};

/// The connections of one generation.
///
/// A pool of our own, because the HTTP library's puts everything on one HTTP/2 connection and waits there when the
/// server's limit is reached, dials once per caller, and loses requests when a server says goodbye.
pub(super) struct Pool {
    pub(super) dialler: Arc<Dialler>,
    tuning: Tuning,
    http1: Http1,
    /// The server has chosen HTTP/1.1, or cannot be asked.
    only_http1: AtomicBool,
    /// The server did not want to speak HTTP/1.1.
    not_http1: AtomicBool,
    /// Somebody is on HTTP/1.1 who need not be.
    lone: Arc<AtomicBool>,
    retired: AtomicBool,
    usual: Arc<Usual>,
    /// In order of age. Requests go to the first with room, so that the last ones run empty and close.
    conns: Mutex<Vec<Arc<Conn>>>,
}

impl Pool {
    pub(super) fn new(dialler: Dialler, tuning: Tuning, usual: Arc<Usual>) -> Arc<Self> {
        let dialler = Arc::new(dialler);
        Arc::new(Self {
            http1: Http1::new(dialler.clone(), &tuning),
            only_http1: AtomicBool::new(dialler.tls.is_none() || !tuning.http2),
            not_http1: AtomicBool::new(false),
            lone: Arc::default(),
            dialler,
            tuning,
            retired: AtomicBool::new(false),
            usual,
            conns: Mutex::default(),
        })
    }

    /// One attempt. Whoever calls decides about another one, on whatever generation is then current.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        mut request: Request<Payload>,
        upgrade: bool,
    ) -> Result<Response<Body>, Failed> {
        loop {
            if upgrade || self.only_http1.load(Acquire) {
                return self.http1.attempt(request, upgrade, None).await;
            }
            if let Some(lone) = self.lone(&request) {
                match self.http1.attempt(request, false, Some(lone)).await {
                    // Perhaps it speaks HTTP/2 and nothing else. If that is not the reason, there is no need for words:
                    // the same will happen again.
                    Err(Failed { error: Error::Handshake { .. }, request: Some(unsent), .. }) => {
                        self.not_http1.store(true, Relaxed);
                        request = unsent;
                    }
                    answered => return answered,
                }
            }
            let Some(slot) = self.place() else { return Err(self.unsent(request)) };
            match slot.conn.ready.wait().await.clone() {
                Err(error) => return Err(Failed::undialled(error, request)),
                Ok(Ready::Http1) => continue,
                Ok(Ready::Http2(line)) => {
                    if slot.nth >= slot.conn.eager {
                        if !slot.conn.link.settled().await {
                            return Err(Failed::lost(line.explain_end(), request, false));
                        }
                        if slot.nth >= slot.conn.link.max() {
                            continue;
                        }
                    }
                    if self.retired.load(Relaxed) {
                        return Err(self.unsent(request));
                    }
                    return send(request, line, slot).await;
                }
            }
        }
    }

    /// Only for what can be sent again: an HTTP/1.1 server says no goodbye before it closes a connection.
    fn lone(&self, request: &Request<Payload>) -> Option<Lone> {
        let spoken = self.tuning.lone_http1 && !self.not_http1.load(Relaxed);
        let fits = spoken && request.method().is_safe() && request.body().is_end_stream();
        if fits { Lone::new(&self.lone) } else { None }
    }

    /// Sees to it that an attempt would find a connection.
    pub(super) async fn connect(self: &Arc<Self>, upgrade: bool) -> Result<(), Error> {
        let mut slot = None;
        if !upgrade && !self.only_http1.load(Acquire) {
            // An attempt finds out by itself that this pool is retired.
            let Some(place) = self.place() else { return Ok(()) };
            if let Some(Ok(Ready::Http2(_))) = place.conn.ready.get() {
                return Ok(());
            }
            slot = Some(place);
        }
        // In a task of its own: a connection is for others as well, and signing for it may block.
        let pool = Arc::clone(self);
        let (done, made) = oneshot::channel();
        tokio::spawn(async move {
            let ready = match slot {
                Some(slot) => slot.conn.ready.wait().await.clone(),
                None => Ok(Ready::Http1),
            };
            let result = match ready {
                Ok(Ready::Http1) => pool.http1.warm_up(|| !done.is_closed()).await,
                other => other.map(drop),
            };
            let _ = done.send(result);
        });
        made.await.map_err(|_| Error::Stopped { host: self.dialler.server.name().clone() })?
    }

    /// Takes no more requests and closes what is idle; the rest closes when its last request has ended.
    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
        self.conns().clear();
        self.http1.retire();
    }

    fn conns(&self) -> MutexGuard<'_, Vec<Arc<Conn>>> {
        self.conns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsent(&self, request: Request<Payload>) -> Failed {
        Failed::unsent(Error::Stopped { host: self.dialler.server.name().clone() }, request)
    }

    /// A place on the first connection that has one, or on a new one. `None`: retired.
    fn place(self: &Arc<Self>) -> Option<Slot> {
        let mut conns = self.conns();
        // Under the lock, so that nothing is added after `retire` has cleared the list.
        if self.retired.load(Relaxed) {
            return None;
        }
        conns.retain(|conn| !conn.link.is_gone());
        if let Some(slot) = conns.iter().find_map(Conn::take) {
            return Some(slot);
        }
        let conn = Conn::new(self.dialler.clock.clone(), &self.usual, self.tuning.max_streams());
        let slot = conn.take();
        conns.push(conn.clone());
        drop(conns);
        self.open(conn);
        slot
    }

    /// Dials in a task of its own, so that a caller who gives up harms nobody.
    fn open(self: &Arc<Self>, conn: Arc<Conn>) {
        let (pool, dialler) = (Arc::downgrade(self), self.dialler.clone());
        let (tuning, usual) = (self.tuning.clone(), self.usual.clone());
        let dial = Dialling { conn, host: dialler.server.name().clone() };
        tokio::spawn(async move {
            match dialler.dial(Offer::Any).await {
                Err(error) => dial.conn.fail(error),
                Ok((io, Spoken::Http1)) => {
                    if let Some(pool) = pool.upgrade() {
                        // In this order: who sees that it is HTTP/1.1 finds the connection.
                        pool.http1.keep(io);
                        pool.only_http1.store(true, Release);
                    }
                    let _ = dial.conn.ready.set(Ok(Ready::Http1));
                    dial.conn.link.end();
                }
                Ok((io, Spoken::Http2)) => begin(io, &dialler, &tuning, usual, &dial.conn, pool).await,
            }
        });
    }

    /// Closes the connection if nobody has been on it for long; otherwise, in how much time to ask again.
    fn close_idle(&self, conn: &Weak<Conn>) -> Option<Duration> {
        let mut conns = self.conns();
        let conn = conn.upgrade()?;
        match conn.idle() {
            None => Some(self.tuning.idle),
            Some(idle) if idle < self.tuning.idle => Some(self.tuning.idle - idle),
            Some(_) => {
                conns.retain(|other| !Arc::ptr_eq(other, &conn));
                None
            }
        }
    }
}

/// Answers those who wait for the dial, however its task ends.
struct Dialling {
    conn: Arc<Conn>,
    host: Arc<str>,
}

impl Drop for Dialling {
    fn drop(&mut self) {
        if self.conn.ready.get().is_none() {
            self.conn.fail(Error::Stopped { host: self.host.clone() });
        }
    }
}

/// Speaks HTTP/2 on a new connection.
async fn begin(io: Io, dialler: &Dialler, tuning: &Tuning, usual: Arc<Usual>, conn: &Arc<Conn>, pool: Weak<Pool>) {
    let line = io.line().clone();
    let (executor, kept) = KeepWire::new();
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .initial_max_send_streams(UNSET)
        .initial_stream_window_size(tuning.stream_window)
        .initial_connection_window_size(tuning.connection_window)
        .max_header_list_size(tuning.max_header_list_size)
        // Late frames for requests that were given up count as errors of ours, and by default a thousand of them in
        // the life of a connection end it with everything on it.
        .max_local_error_reset_streams(None);
    if let Some(ping) = &tuning.ping {
        builder.keep_alive_interval(ping.interval).keep_alive_timeout(ping.timeout).keep_alive_while_idle(true);
    }
    let (sender, connection) = match builder.handshake(TokioIo::new(io)).await {
        Ok(pair) => pair,
        Err(error) => return conn.fail(line.explain(error)),
    };
    let drive = Drive {
        connection: Box::pin(connection),
        wire: kept.wire(),
        over: Over::of(conn),
        line: line.clone(),
        limits: dialler.limits.clone(),
        clock: dialler.clock.clone(),
        cap: tuning.max_streams(),
        usual,
    };
    // Weak, both: the sender must not be kept alive by the task that waits for its end.
    let weak = Arc::downgrade(conn);
    conn.open(sender, line);
    tokio::spawn(drive.run(move || pool.upgrade()?.close_idle(&weak)));
}

async fn send(mut request: Request<Payload>, line: Arc<Line>, slot: Slot) -> Result<Response<Body>, Failed> {
    *request.version_mut() = Version::HTTP_2;
    let Some(mut sender) = slot.conn.sender() else {
        return Err(Failed::lost(line.explain_end(), request, slot.conn.link.was_settled()));
    };
    let written = line.written();
    let answer = sender.try_send_request(request);
    drop(sender);
    match answer.await {
        Ok(response) => {
            line.prove();
            Ok(response.map(|body| Body::new(body, line, Some(Place::Http2(slot)))))
        }
        Err(mut error) => {
            if let Some(request) = error.take_message() {
                let settled = slot.conn.link.was_settled();
                // It is closing, and will say so only to those who knock.
                slot.conn.link.end();
                return Err(Failed::lost(line.explain(error.into_error()), request, settled));
            }
            let error = error.into_error();
            let failure = Failure::of(&error, line.is_proven(), line.written() == written);
            Err(Failed { error: line.explain(error), failure, request: None })
        }
    }
}
