//! HTTP/1.1 connections: for upgrades, and for servers without HTTP/2. One request at a time per connection.
//!
//! hyper-util's pool keeps connections of a retired generation while a response is awaited, opens more connections than
//! needed, and never completes a request that is sent in the moment in which its connection closes.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use credlet_platform::Clock;
use http::header::{CONNECTION, HOST, PROXY_AUTHORIZATION};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::body::{ConnectionLease, RequestBody, ResponseBody};
use super::conn_state::{ConnIo, ConnState};
use super::dial::{AlpnOffer, Dialer};
use super::retry::{DeliveryState, FailedAttempt};
use super::{HttpError, HttpTuning};

/// Maximum number of response headers. API servers send one header per warning.
const MAX_HEADERS: usize = 1_000;

pub(super) struct Http1Pool {
    dialer: Arc<Dialer>,
    /// Requests are sent to a forwarding proxy.
    forwarding: bool,
    /// `Proxy-Authorization` for a forwarding proxy.
    proxy_authorization: Option<HeaderValue>,
    host: Option<HeaderValue>,
    idle: Arc<IdleConnections>,
    /// Connection that was opened to negotiate HTTP/2, and the time at which it was opened.
    spare: Mutex<Option<(Duration, ConnIo)>>,
    warming_up: tokio::sync::Mutex<()>,
}

impl Http1Pool {
    pub(super) fn new(dialer: Arc<Dialer>, tuning: &HttpTuning) -> Self {
        let forwarding = dialer.route.forwarding();
        let idle = IdleConnections {
            list: Mutex::new(Some(IdleList::default())),
            dialer: dialer.clone(),
            timeout: tuning.idle_timeout,
            max: tuning.max_idle_connections,
        };
        Self {
            forwarding: forwarding.is_some(),
            proxy_authorization: forwarding.and_then(|forwarding| forwarding.authorization),
            host: HeaderValue::from_str(dialer.server.host_header()).ok(),
            idle: Arc::new(idle),
            spare: Mutex::default(),
            warming_up: tokio::sync::Mutex::default(),
            dialer,
        }
    }

    /// Makes one attempt.
    pub(super) async fn attempt(
        &self,
        mut request: Request<RequestBody>,
        upgrade: bool,
        permit: Option<SoloPermit>,
    ) -> Result<Response<ResponseBody>, FailedAttempt> {
        let (mut lease, used) = match poll_fn(|cx| Poll::Ready(self.idle.take(cx))).await {
            Some(lease) => (lease, true),
            // Boxed: a handshake would enlarge the future of every request, also of those on an idle connection.
            None => match Box::pin(self.connect()).await {
                Ok(lease) => (lease, false),
                Err(error) => return Err(FailedAttempt::not_connected(error, request)),
            },
        };
        lease.permit = permit;
        if self.idle.is_retired() {
            return Err(FailedAttempt::unsent(self.canceled(), request));
        }
        let uri = request.uri().clone();
        self.prepare(&mut request);
        lease.reusable = request.body().is_end_stream();
        let mut response = pin!(lease.sender.try_send_request(request));
        let state = lease.state.clone();
        let written = state.written();
        let response = poll_fn(|cx| {
            lease.drive(cx);
            // It can complete only while the connection is driven, so it needs no waker.
            response.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        });
        match response.await {
            Ok(response) => {
                state.set_proven();
                lease.reusable &= response.version() == Version::HTTP_11
                    && response.headers().get(CONNECTION).is_none_or(|value| value == "keep-alive");
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    // The caller takes the connection over; hyper's future hands it to the caller.
                    lease.detach().map(tokio::spawn);
                }
                let lease = lease.connection.is_some().then_some(ConnectionLease::Http1(lease));
                Ok(response.map(|body| ResponseBody::new(body, state, lease)))
            }
            Err(mut error) => {
                if let Some(mut request) = error.take_message() {
                    // Restores the absolute URL: the next attempt may use HTTP/2.
                    *request.uri_mut() = uri;
                    let error = state.classify(error.into_error());
                    return Err(FailedAttempt::connection_closed(error, request, used));
                }
                let error = error.into_error();
                // An upgrade may have had an effect before the connection failed.
                let delivery = match DeliveryState::of(&error, state.is_proven(), state.written() == written) {
                    DeliveryState::ConnectionLost if upgrade => DeliveryState::MaybeProcessed,
                    delivery => delivery,
                };
                Err(FailedAttempt { error: state.classify(error), delivery, request: None })
            }
        }
    }

    /// Opens an idle connection, unless there is one. Concurrent calls share it. If the caller no longer waits
    /// (`is_wanted`), only a connection that is already open is added: another request may have taken it meanwhile.
    pub(super) async fn warm_up(&self, is_wanted: impl Fn() -> bool) -> Result<(), HttpError> {
        let _guard = self.warming_up.lock().await;
        if self.idle.list().as_mut().is_some_and(|list| list.leases.iter_mut().any(|(_, lease)| lease.is_ready())) {
            return Ok(());
        }
        if is_wanted() || self.spare().is_some() {
            self.connect().await?.release();
        }
        Ok(())
    }

    /// Stores an open connection for the next request.
    pub(super) fn add_spare(&self, io: ConnIo) {
        if !self.idle.is_retired() {
            *self.spare() = Some((self.dialer.clock.monotonic(), io));
        }
    }

    /// Closes idle connections. The others close when their request has completed.
    pub(super) fn retire(&self) {
        *self.idle.list() = None;
        *self.spare() = None;
    }

    async fn connect(&self) -> Result<Http1Lease, HttpError> {
        // The requests that waited for it come at once. An older connection may be dead.
        const SPARE_MAX_AGE: Duration = Duration::from_secs(5);
        if self.idle.is_retired() {
            return Err(self.canceled());
        }
        let now = self.dialer.clock.monotonic();
        let spare = self.spare().take().filter(|(opened, _)| now.saturating_sub(*opened) < SPARE_MAX_AGE);
        let io = match spare {
            Some((_, io)) => io,
            None => self.dialer.dial(AlpnOffer::Http1).await?.0,
        };
        let state = io.state().clone();
        let handshake = http1::Builder::new().max_headers(MAX_HEADERS).handshake(TokioIo::new(io)).await;
        let (sender, connection) = handshake.map_err(|error| state.classify(error))?;
        Ok(Http1Lease {
            sender,
            connection: Some(Box::pin(connection.with_upgrades())),
            state,
            idle: Arc::downgrade(&self.idle),
            permit: None,
            reusable: false,
        })
    }

    fn canceled(&self) -> HttpError {
        HttpError::Canceled { host: self.dialer.server.name().clone() }
    }

    fn prepare(&self, request: &mut Request<RequestBody>) {
        *request.version_mut() = Version::HTTP_11;
        if let Some(host) = &self.host {
            request.headers_mut().entry(HOST).or_insert_with(|| host.clone());
        }
        if let Some(authorization) = &self.proxy_authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        if !self.forwarding {
            let path = request.uri().path_and_query().cloned();
            *request.uri_mut() = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
        }
    }

    fn spare(&self) -> MutexGuard<'_, Option<(Duration, ConnIo)>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type ConnectionFuture = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// Exclusive use of a connection. Dropping it closes the connection.
///
/// A connection has no task: the request or body that waits for it drives it. So it is back in the pool when the end of a
/// response is seen, and the next request of the same caller finds it there.
pub(super) struct Http1Lease {
    sender: SendRequest<RequestBody>,
    /// `None` after the connection closed or was upgraded.
    connection: Option<ConnectionFuture>,
    state: Arc<ConnState>,
    idle: Weak<IdleConnections>,
    permit: Option<SoloPermit>,
    /// Headers of the last request and response allow another request.
    reusable: bool,
}

impl Drop for Http1Lease {
    /// Drives the connection until it has shut down, so that TLS sends close_notify.
    fn drop(&mut self) {
        if let Some(connection) = self.detach()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(connection);
        }
    }
}

/// Permit to use HTTP/1.1 although HTTP/2 is available. One request at a time has it.
pub(super) struct SoloPermit(Arc<AtomicBool>);

impl SoloPermit {
    pub(super) fn new(taken: &Arc<AtomicBool>) -> Option<Self> {
        // The load first: while the permit is taken, the cache line is not invalidated.
        (!taken.load(Relaxed) && !taken.swap(true, Relaxed)).then(|| Self(taken.clone()))
    }
}

impl Drop for SoloPermit {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

impl Http1Lease {
    /// Polls the connection. Errors are reported through the sender.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(cx).is_ready()
        {
            // Dropping it returns unsent requests to their callers.
            self.connection = None;
        }
    }

    /// Polls the next frame of the response body.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // It can complete only while the connection is driven, so it needs no waker.
        let mut next = || Pin::new(&mut *incoming).poll_frame(&mut Context::from_waker(Waker::noop()));
        let frame = next();
        if frame.is_pending() {
            self.drive(cx);
            return next();
        }
        frame
    }

    /// Returns the connection for a task that drives it.
    fn detach(&mut self) -> Option<ConnectionFuture> {
        self.connection.take()
    }

    /// Whether the connection accepts a request, as far as is known.
    fn is_ready(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready()
    }

    /// Returns the connection to the pool, after the response was read completely.
    pub(super) fn release(mut self) {
        self.permit = None;
        let Some(idle) = self.idle.upgrade() else { return };
        // `take` checks again.
        if self.reusable || self.is_ready() {
            return idle.add(self);
        }
        // The request body is still being sent.
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
                    idle.add(self);
                }
            });
        }
    }
}

struct IdleConnections {
    /// `None` after the pool was retired.
    list: Mutex<Option<IdleList>>,
    dialer: Arc<Dialer>,
    timeout: Duration,
    max: usize,
}

/// Idle connections with the time at which they became idle. The newest, most likely to be alive, is last.
#[derive(Default)]
struct IdleList {
    leases: Vec<(Duration, Http1Lease)>,
    /// A task closes them after the idle timeout.
    has_reaper: bool,
}

impl IdleConnections {
    /// Takes the newest connection that accepts a request. From now on it wakes the task of `cx`.
    fn take(&self, cx: &mut Context<'_>) -> Option<Http1Lease> {
        let mut list = self.list();
        let leases = &mut list.as_mut()?.leases;
        std::iter::from_fn(|| leases.pop()).map(|(_, lease)| lease).find_map(|mut lease| {
            lease.drive(cx);
            lease.sender.is_ready().then_some(lease)
        })
    }

    fn add(self: Arc<Self>, lease: Http1Lease) {
        let now = self.dialer.clock.monotonic();
        let mut list = self.list();
        let Some(list) = list.as_mut().filter(|list| list.leases.len() < self.max) else { return };
        list.leases.push((now, lease));
        if !list.has_reaper
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            list.has_reaper = true;
            runtime.spawn(reap_idle(Arc::downgrade(&self), self.dialer.clock.clone(), self.timeout));
        }
    }

    /// Closes connections after their idle timeout. Returns the time until the next check, or `None` if no connection
    /// is left.
    fn close_expired(&self) -> Option<Duration> {
        let now = self.dialer.clock.monotonic();
        let mut list = self.list();
        let list = list.as_mut()?;
        list.leases.retain_mut(|(since, lease)| now.saturating_sub(*since) < self.timeout && lease.is_ready());
        let next = list.leases.first().map(|(since, _)| self.timeout.saturating_sub(now.saturating_sub(*since)));
        list.has_reaper = next.is_some();
        next
    }

    fn is_retired(&self) -> bool {
        self.list().is_none()
    }

    fn list(&self) -> MutexGuard<'_, Option<IdleList>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes idle connections in the background. It holds the clock and not the dialer, because the dialer's route may keep
/// a process alive.
async fn reap_idle(idle: Weak<IdleConnections>, clock: Arc<dyn Clock>, timeout: Duration) {
    let mut next = Some(timeout);
    while let Some(delay) = next {
        clock.sleep(delay).await;
        next = idle.upgrade().and_then(|idle| idle.close_expired());
    }
}
