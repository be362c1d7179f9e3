//! HTTP/1.1: for upgrades, and for servers that know nothing newer. One request at a time on a connection.
//!
//! The HTTP library has a pool for this too, and it would nearly do. But it keeps the connections of a retired
//! generation while an answer is awaited, makes more connections than it needs, and has a request wait for ever that
//! is put on a connection in the moment of its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use credlet_core::Clock;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

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
    pub(super) async fn attempt(&self, mut request: Request<Payload>, upgrade: bool) -> Result<Response<Body>, Failed> {
        let (mut lease, used) = match self.idle.take() {
            Some(lease) => (lease, true),
            // In a box, for the sake of all who find one that is idle: a handshake takes a lot of room.
            None => match Box::pin(self.connect()).await {
                Ok(lease) => (lease, false),
                Err(error) => return Err(Failed::undialled(error, request)),
            },
        };
        if self.idle.is_retired() {
            return Err(Failed::unsent(Error::Stopped { host: self.dialler.server.name().clone() }, request));
        }
        self.prepare(&mut request);
        let answer = lease.sender.try_send_request(request);
        let line = lease.line.clone();
        // A request that gets into the queue while the connection ends comes back when the sender is gone, and not
        // before. If the end is still to come it will be found there.
        let lease = (!lease.sender.is_closed()).then_some(lease);
        match answer.await {
            Ok(response) => {
                line.prove();
                // After an upgrade the connection is the caller's.
                let lease = lease.filter(|_| response.status() != StatusCode::SWITCHING_PROTOCOLS);
                Ok(response.map(|body| Body::new(body, line, lease.map(Place::Http1))))
            }
            Err(mut error) => {
                if let Some(request) = error.take_message() {
                    return Err(Failed::lost(line.explain(error.into_error()), request, used));
                }
                let error = error.into_error();
                // An upgrade may have started something by the time it breaks.
                let failure = if upgrade { Failure::Final } else { Failure::of(&error, line.is_proven()) };
                Err(Failed { error: line.explain(error), failure, request: None })
            }
        }
    }

    /// Makes a connection that nobody uses yet, unless there is one. Who comes meanwhile waits for that one.
    pub(super) async fn warm_up(&self) -> Result<(), Error> {
        let _turn = self.warming.lock().await;
        if self.idle.list().as_ref().is_some_and(|list| list.leases.iter().any(|(_, lease)| lease.sender.is_ready())) {
            return Ok(());
        }
        let mut lease = self.connect().await?;
        // Not before: the next who looks is to find it.
        if lease.sender.ready().await.is_ok() {
            Arc::clone(&self.idle).put(lease);
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
        const FRESH: Duration = Duration::from_secs(1);
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
        tokio::spawn(connection.with_upgrades());
        Ok(Lease { sender, line, idle: Arc::downgrade(&self.idle) })
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

/// A connection in somebody's hands. Dropping it closes the connection.
pub(super) struct Lease {
    sender: SendRequest<Payload>,
    line: Arc<Line>,
    idle: Weak<Idle>,
}

impl Lease {
    /// The answer was read to its end.
    pub(super) fn give_back(mut self) {
        let Some(idle) = self.idle.upgrade() else { return };
        if self.sender.is_ready() {
            return idle.put(self);
        }
        // The connection's task has yet to see the end, or the request is still being sent.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(idle);
            runtime.spawn(async move {
                if self.sender.ready().await.is_ok()
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
    fn take(&self) -> Option<Lease> {
        let mut list = self.list();
        let leases = &mut list.as_mut()?.leases;
        std::iter::from_fn(|| leases.pop()).map(|(_, lease)| lease).find(|lease| lease.sender.is_ready())
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
        list.leases.retain(|(since, lease)| now.saturating_sub(*since) < self.limit && lease.sender.is_ready());
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
