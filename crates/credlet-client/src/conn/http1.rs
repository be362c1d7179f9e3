//! HTTP/1.1: for upgrades, and for servers that know nothing newer. Here the HTTP library's pool does well.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{Extensions, HeaderValue, Request, Response, Uri, Version};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::body::{Body, Payload};
use super::dial::{Dialler, Offer};
use super::line::{Io, Line};
use super::retry::{Failed, Failure};
use super::{Error, Tuning};

/// As client-go.
const MAX_IDLE: usize = 25;

pub(super) struct Http1 {
    client: Mutex<Option<legacy::Client<Connector, Payload>>>,
    connector: Connector,
    /// For a proxy that passes requests on.
    authorization: Option<HeaderValue>,
}

impl Http1 {
    pub(super) fn new(dialler: Arc<Dialler>, tuning: &Tuning) -> Self {
        let authorization = dialler.route.forwarding().and_then(|forwarding| forwarding.authorization);
        let connector = Connector { dialler, spare: Arc::default() };
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            // Without a timer of its own the pool closes idle connections only when somebody asks for one.
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(tuning.idle)
            .pool_max_idle_per_host(MAX_IDLE)
            .build(connector.clone());
        Self { client: Mutex::new(Some(client)), connector, authorization }
    }

    /// One attempt. The library's pool sends a request again by itself if it was never written.
    pub(super) async fn attempt(&self, mut request: Request<Payload>, upgrade: bool) -> Result<Response<Body>, Failed> {
        let dialler = &self.connector.dialler;
        let started = dialler.clock.monotonic();
        let Some(client) = self.client().clone() else {
            return Err(Failed::unsent(Error::Stopped { host: dialler.server.name().clone() }, request));
        };
        *request.version_mut() = Version::HTTP_11;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        // The answer to a request keeps the pool alive until its head is here: hence the retiring above, and no clone
        // of the client beyond this line.
        let answer = client.request(request);
        drop(client);
        match answer.await {
            Ok(mut response) => {
                let line = response.extensions_mut().remove::<Arc<Line>>();
                let line = line.unwrap_or_else(|| Arc::new(dialler.line()));
                line.prove();
                Ok(response.map(|body| Body::new(body, line, None)))
            }
            Err(error) => Err(self.explain(error, upgrade, started)),
        }
    }

    fn explain(&self, error: legacy::Error, upgrade: bool, started: Duration) -> Failed {
        let mut extensions = Extensions::new();
        if let Some(connection) = error.connect_info() {
            connection.get_extras(&mut extensions);
        }
        let Some(line) = extensions.remove::<Arc<Line>>() else {
            // No connection: the dial's own error is somewhere inside.
            return Failed::finally(self.connector.dialler.line().explain(error));
        };
        // Not every idle connection has answered: the library dials for each request, and keeps what it did not need.
        let old = line.is_proven() || line.is_older_than(started);
        // An upgrade may have started something by the time it breaks.
        let failure = if upgrade { Failure::Final } else { Failure::of(&error, old) };
        Failed { error: line.explain(error), failure, request: None }
    }

    /// A connection that was made in the hope of HTTP/2, for the next who asks.
    pub(super) fn keep(&self, io: Io) {
        let kept = (self.connector.dialler.clock.monotonic(), io);
        if self.client().is_some() {
            *self.connector.spare() = Some(kept);
        }
    }

    pub(super) fn retire(&self) {
        *self.client() = None;
        *self.connector.spare() = None;
    }

    fn client(&self) -> MutexGuard<'_, Option<legacy::Client<Connector, Payload>>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dials for the library's pool.
#[derive(Clone)]
struct Connector {
    dialler: Arc<Dialler>,
    /// With the time it was made.
    spare: Arc<Mutex<Option<(Duration, Io)>>>,
}

impl Connector {
    fn spare(&self) -> MutexGuard<'_, Option<(Duration, Io)>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Io>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Io>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        // Those who waited for it come at once. Later it may be dead already.
        const FRESH: Duration = Duration::from_secs(1);
        let now = self.dialler.clock.monotonic();
        if let Some((made, io)) = self.spare().take()
            && now.saturating_sub(made) < FRESH
        {
            return Box::pin(async move { Ok(TokioIo::new(io)) });
        }
        let dialler = self.dialler.clone();
        Box::pin(async move { dialler.dial(Offer::Http1).await.map(|(io, _)| TokioIo::new(io)) })
    }
}
