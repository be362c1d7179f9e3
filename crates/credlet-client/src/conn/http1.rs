//! HTTP/1.1: for upgrades, and for servers that know nothing newer. One request at a time on a connection.
//!
//! The HTTP library has a pool for this too, and it would nearly do. But it keeps the connections of a retired
//! generation while an answer is awaited, makes more connections than it needs, and has a request wait for ever that
//! is put on a connection in the moment of its end.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use credlet_core::Clock;
use http::header::{CONNECTION, HOST, PROXY_AUTHORIZATION};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::bell::Bell;
use super::body::{Body, Payload, Place};
use super::dial::{Dialler, Offer};
use super::line::{Io, Line};
use super::retry::{Failed, Failure};
use super::{Error, Tuning};

/// How many headers an answer may have. API servers send one for each of their warnings.
const MOST_HEADERS: usize = 1_000;

pub(super) struct Http1 {
    dialler: Arc<Dialler>,
    /// Requests go to a proxy that passes them on, with its own credential if it has one.
    forwards: bool,
    authorization: Option<HeaderValue>,
    host: Option<HeaderValue>,
    idle: Arc<Idle>,
    /// A connection that was made in the hope of HTTP/2, and when.
    spare: Mutex<Option<(Duration, Io)>>,
    warming: tokio::sync::Mutex<()>,
}

impl Http1 {
    pub(super) fn new(dialler: Arc<Dialler>, tuning: &Tuning) -> Self {
        let forwarding = dialler.route.forwarding();
        let idle = Idle {
            list: Mutex::new(Some(List::default())),
            dialler: dialler.clone(),
            limit: tuning.idle,
            most: tuning.idle_connections,
        };
        Self {
            forwards: forwarding.is_some(),
            authorization: forwarding.and_then(|forwarding| forwarding.authorization),
            host: HeaderValue::from_str(dialler.server.host_header()).ok(),
            idle: Arc::new(idle),
            spare: Mutex::default(),
            warming: tokio::sync::Mutex::default(),
            dialler,
        }
    }

    /// One attempt.
    pub(super) async fn attempt(
        &self,
        mut request: Request<Payload>,
        upgrade: bool,
        lone: Option<Lone>,
    ) -> Result<Response<Body>, Failed> {
        let (mut lease, used) = match poll_fn(|cx| Poll::Ready(self.idle.take(cx))).await {
            Some(lease) => (lease, true),
            // In a box, for the sake of all who find one that is idle: a handshake takes a lot of room.
            None => match Box::pin(self.connect()).await {
                Ok(lease) => (lease, false),
                Err(error) => return Err(Failed::undialled(error, request)),
            },
        };
        lease.lone = lone;
        if self.idle.is_retired() {
            return Err(Failed::unsent(Error::Stopped { host: self.dialler.server.name().clone() }, request));
        }
        let uri = request.uri().clone();
        self.prepare(&mut request);
        lease.reusable = request.body().is_end_stream();
        let mut answer = pin!(Bell::muffled(lease.bell.as_ref(), || lease.sender.try_send_request(request)));
        let line = lease.line.clone();
        let written = line.written();
        let answer = poll_fn(|cx| {
            lease.drive(cx);
            // It comes while the connection is driven and at no other time.
            answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        });
        match answer.await {
            Ok(response) => {
                line.prove();
                lease.reusable &= response.version() == Version::HTTP_11
                    && response.headers().get(CONNECTION).is_none_or(|said| said == "keep-alive");
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    // From here on the connection is the caller's; what is left of it hands it over.
                    lease.let_go().map(tokio::spawn);
                }
                let place = lease.connection.is_some().then_some(Place::Http1(lease));
                Ok(response.map(|body| Body::new(body, line, place)))
            }
            Err(mut error) => {
                if let Some(mut request) = error.take_message() {
                    // Whole again: the next attempt may be over HTTP/2.
                    *request.uri_mut() = uri;
                    return Err(Failed::lost(line.explain(error.into_error()), request, used));
                }
                let error = error.into_error();
                // An upgrade may have started something by the time it breaks.
                let failure = match Failure::of(&error, line.is_proven(), line.written() == written) {
                    Failure::Broken if upgrade => Failure::Final,
                    failure => failure,
                };
                Err(Failed { error: line.explain(error), failure, request: None })
            }
        }
    }

    /// Makes a connection that nobody uses yet, unless there is one. Who comes meanwhile waits for that one. If nobody
    /// `waits` any more, none is made beyond the one that was begun: somebody else may be on that by now.
    pub(super) async fn warm_up(&self, waits: impl Fn() -> bool) -> Result<(), Error> {
        let _turn = self.warming.lock().await;
        if self.idle.list().as_mut().is_some_and(|list| list.leases.iter_mut().any(|(_, lease)| lease.is_ready())) {
            return Ok(());
        }
        if waits() || self.spare().is_some() {
            self.connect().await?.give_back();
        }
        Ok(())
    }

    /// For the next who asks.
    pub(super) fn keep(&self, io: Io) {
        if !self.idle.is_retired() {
            *self.spare() = Some((self.dialler.clock.monotonic(), io));
        }
    }

    /// Closes what is idle; the rest closes when its request has ended.
    pub(super) fn retire(&self) {
        *self.idle.list() = None;
        *self.spare() = None;
    }

    async fn connect(&self) -> Result<Lease, Error> {
        // Those who waited for it come at once. Later it may be dead already.
        const FRESH: Duration = Duration::from_secs(5);
        if self.idle.is_retired() {
            return Err(Error::Stopped { host: self.dialler.server.name().clone() });
        }
        let now = self.dialler.clock.monotonic();
        let spare = self.spare().take().filter(|(made, _)| now.saturating_sub(*made) < FRESH);
        let io = match spare {
            Some((_, io)) => io,
            None => self.dialler.dial(Offer::Http1).await?.0,
        };
        let line = io.line().clone();
        let handshake = http1::Builder::new().max_headers(MOST_HEADERS).handshake(TokioIo::new(io)).await;
        let (sender, connection) = handshake.map_err(|error| line.explain(error))?;
        Ok(Lease {
            sender,
            connection: Some(Box::pin(connection.with_upgrades())),
            line,
            idle: Arc::downgrade(&self.idle),
            lone: None,
            bell: None,
            reusable: false,
        })
    }

    fn prepare(&self, request: &mut Request<Payload>) {
        *request.version_mut() = Version::HTTP_11;
        if let Some(host) = &self.host {
            request.headers_mut().entry(HOST).or_insert_with(|| host.clone());
        }
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        if !self.forwards {
            let path = request.uri().path_and_query().cloned();
            *request.uri_mut() = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
        }
    }

    fn spare(&self) -> MutexGuard<'_, Option<(Duration, Io)>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Connection = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// A connection in somebody's hands. Dropping it closes the connection.
///
/// It has no task of its own: whoever waits for something from it drives it. So it is back in the pool by the time that the
/// end of an answer is seen, and the next request of the same caller finds it there.
pub(super) struct Lease {
    sender: SendRequest<Payload>,
    /// `None`: it has ended, or has become something else.
    connection: Option<Connection>,
    line: Arc<Line>,
    idle: Weak<Idle>,
    lone: Option<Lone>,
    /// What wakes whoever drives it.
    bell: Option<Bell>,
    /// As far as the last request and its answer tell, the next one can follow.
    reusable: bool,
}

impl Drop for Lease {
    /// Without its sender the connection ends in good order, as TLS wants it.
    fn drop(&mut self) {
        if let Some(connection) = self.let_go()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(connection);
        }
    }
}

/// The right to be on HTTP/1.1 although there is HTTP/2: one at a time has it.
pub(super) struct Lone(Arc<AtomicBool>);

impl Lone {
    pub(super) fn new(taken: &Arc<AtomicBool>) -> Option<Self> {
        // Mostly it is free; if it is not, the cache line is left alone.
        (!taken.load(Relaxed) && !taken.swap(true, Relaxed)).then(|| Self(taken.clone()))
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

impl Lease {
    /// Reads and writes what there is to read and write. The sender knows how it went.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        let bell = match self.bell.take() {
            Some(bell) if bell.wakes(cx.waker()) => bell,
            _ => Bell::new(cx.waker(), &self.line),
        };
        self.poll(&bell.waker);
        self.bell = Some(bell);
    }

    fn poll(&mut self, waker: &Waker) {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(&mut Context::from_waker(waker)).is_ready()
        {
            // With it go those requests that it did not look at any more, back to who sent them.
            self.connection = None;
        }
    }

    /// The next piece of the answer that is being read.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // It comes while the connection is driven and at no other time.
        let mut next = || Pin::new(&mut *incoming).poll_frame(&mut Context::from_waker(Waker::noop()));
        let frame = Bell::muffled(self.bell.as_ref(), &mut next);
        if frame.is_pending() {
            self.drive(cx);
            return next();
        }
        frame
    }

    /// The connection, for a task that drives it without us.
    fn let_go(&mut self) -> Option<Connection> {
        self.line.has_bell(false);
        self.connection.take()
    }

    /// Whether it can take a request, as far as is known.
    fn is_ready(&mut self) -> bool {
        self.poll(Waker::noop());
        self.line.stir();
        self.sender.is_ready()
    }

    /// The answer was read to its end.
    pub(super) fn give_back(mut self) {
        self.lone = None;
        let Some(idle) = self.idle.upgrade() else { return };
        // Whoever takes it looks again.
        if self.reusable || self.is_ready() {
            return idle.put(self);
        }
        // The request is still being sent.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(idle);
            runtime.spawn(async move {
                let ready = poll_fn(|cx| {
                    self.drive(cx);
                    self.sender.poll_ready(cx)
                });
                if ready.await.is_ok()
                    && let Some(idle) = self.idle.upgrade()
                {
                    idle.put(self);
                }
            });
        }
    }
}

/// Connections that nobody uses.
struct Idle {
    /// `None`: retired.
    list: Mutex<Option<List>>,
    dialler: Arc<Dialler>,
    limit: Duration,
    most: usize,
}

/// The newest last: it is the most likely to be alive.
#[derive(Default)]
struct List {
    leases: Vec<(Duration, Lease)>,
    /// Somebody sees to it that they are closed in time.
    watched: bool,
}

impl Idle {
    /// The newest that can take a request. From now on it wakes whoever asks.
    fn take(&self, cx: &mut Context<'_>) -> Option<Lease> {
        let mut list = self.list();
        let leases = &mut list.as_mut()?.leases;
        std::iter::from_fn(|| leases.pop()).map(|(_, lease)| lease).find_map(|mut lease| {
            lease.drive(cx);
            lease.sender.is_ready().then_some(lease)
        })
    }

    fn put(self: Arc<Self>, lease: Lease) {
        let now = self.dialler.clock.monotonic();
        let mut list = self.list();
        let Some(list) = list.as_mut().filter(|list| list.leases.len() < self.most) else { return };
        list.leases.push((now, lease));
        if !list.watched
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            list.watched = true;
            runtime.spawn(close_in_time(Arc::downgrade(&self), self.dialler.clock.clone(), self.limit));
        }
    }

    /// Closes what has been idle for too long. `None`: there is nothing left.
    fn close_old(&self) -> Option<Duration> {
        let now = self.dialler.clock.monotonic();
        let mut list = self.list();
        let list = list.as_mut()?;
        list.leases.retain_mut(|(since, lease)| now.saturating_sub(*since) < self.limit && lease.is_ready());
        let next = list.leases.first().map(|(since, _)| self.limit.saturating_sub(now.saturating_sub(*since)));
        list.watched = next.is_some();
        next
    }

    fn is_retired(&self) -> bool {
        self.list().is_none()
    }

    fn list(&self) -> MutexGuard<'_, Option<List>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It has the clock and not the dialler, whose route may keep a whole process alive.
async fn close_in_time(idle: Weak<Idle>, clock: Arc<dyn Clock>, limit: Duration) {
    let mut next = Some(limit);
    while let Some(pause) = next {
        clock.sleep(pause).await;
        next = idle.upgrade().and_then(|idle| idle.close_old());
    }
}
