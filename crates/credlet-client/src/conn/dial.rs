use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use credlet_core::Clock;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::ahead::ReadAhead;
use super::gate::Gate;
use super::line::{Inner, Io, Line};
use super::route::Route;
use super::tls::Session;
use super::{Error, Limits, Server, Step, words};

/// Makes connections to the server for one generation.
#[derive(Debug)]
pub(super) struct Dialler {
    pub(super) server: Server,
    pub(super) route: Arc<dyn Route>,
    /// `None`: the server is an http one, or the route is safe without.
    pub(super) tls: Option<(Session, ServerName<'static>)>,
    pub(super) limits: Limits,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) gate: Gate,
    /// How many connections were made, by this generation and those before.
    pub(super) made: Arc<AtomicU64>,
}

/// What to offer the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    Any,
    Http1,
}

/// What the server has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
}

impl Dialler {
    /// One connection, or one error when a limit is over. Dropping it stops the attempt.
    pub(super) async fn dial(&self, offer: Offer) -> Result<(Io, Spoken), Error> {
        let host = self.server.name();
        let whole = async {
            match self.within(self.limits.dial, self.stages(offer)).await {
                Some(result) => result,
                None => Err(self.late(Step::Connect, self.limits.dial)),
            }
        };
        let result = tokio::select! {
            biased;
            () = self.gate.cutting() => Err(Error::Rotated { host: host.clone() }),
            result = whole => result,
        };
        match &result {
            Ok((_, spoken)) => {
                self.made.fetch_add(1, Relaxed);
                tracing::debug!(%host, ?spoken, "connected");
            }
            Err(error) => tracing::debug!(%host, %error, "not connected"),
        }
        result
    }

    async fn stages(&self, offer: Offer) -> Result<(Io, Spoken), Error> {
        let (limits, target) = (&self.limits, self.server.target());
        let wire = match self.within(limits.connect, self.route.connect(&target)).await {
            Some(wire) => wire?,
            None => return Err(self.late(Step::Connect, limits.connect)),
        };
        let Some((session, name)) = &self.tls else {
            return Ok((Io::new(Inner::Plain(wire), self.line()), Spoken::Http1));
        };
        let config: &Arc<ClientConfig> = match offer {
            Offer::Any => &session.any,
            Offer::Http1 => &session.http1,
        };
        let handshake = TlsConnector::from(config.clone()).connect(name.clone(), ReadAhead::new(wire));
        let host = &self.peer();
        let stream = match self.within(limits.tls, handshake).await {
            Some(result) => result.map_err(|error| words::handshake(host, &error))?,
            None => return Err(Error::TimedOut { host: host.clone(), step: Step::Tls, after: limits.tls }),
        };
        let spoken = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Spoken::Http2,
            _ => Spoken::Http1,
        };
        Ok((Io::new(Inner::Tls(Box::new(stream)), self.line()), spoken))
    }

    /// About a connection that is made now.
    fn line(&self) -> Line {
        let line = Line::new(self.peer(), self.gate.clone());
        if self.route.is_renewable() {
            // Whoever is there may go at any moment, on a new connection too, and another comes in their place.
            line.prove();
        }
        line
    }

    /// Whom TLS and HTTP are spoken with.
    fn peer(&self) -> Arc<str> {
        let between = self.route.via().filter(|_| self.route.is_renewable());
        between.map_or_else(|| self.server.name().clone(), Arc::from)
    }

    /// `None`: the limit is over.
    pub(super) async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            result = work => Some(result),
            () = self.clock.sleep(limit) => None,
        }
    }

    /// Names the proxy, if it was the proxy that did not answer.
    fn late(&self, step: Step, after: Duration) -> Error {
        let host = self.route.via().map_or_else(|| self.server.name().clone(), Arc::from);
        Error::TimedOut { host, step, after }
    }
}
