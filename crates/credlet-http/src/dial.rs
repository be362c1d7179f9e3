use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use credlet_platform::Clock;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::conn_state::{ConnIo, ConnState, Transport};
use super::connection_group::ConnectionGroup;
use super::read_ahead::ReadAhead;
use super::route::Route;
use super::tls::TlsSession;
use super::{ConnectPhase, ConnectTimeouts, HttpError, ServerAddr, tls_error};

/// Opens connections of one credential generation.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) server: ServerAddr,
    pub(super) route: Arc<dyn Route>,
    /// `None`: an http server, or a route that is safe without TLS.
    pub(super) tls: Option<(TlsSession, ServerName<'static>)>,
    pub(super) timeouts: ConnectTimeouts,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) group: ConnectionGroup,
    /// Number of connections opened by all generations of the client.
    pub(super) opened: Arc<AtomicU64>,
}

/// ALPN protocols to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlpnOffer {
    Any,
    Http1,
}

/// Protocol that the server selected by ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectedProtocol {
    Http1,
    Http2,
}

impl Dialer {
    /// Opens a connection. Dropping the future cancels the attempt.
    pub(super) async fn dial(&self, offer: AlpnOffer) -> Result<(ConnIo, SelectedProtocol), HttpError> {
        let host = self.server.name();
        let limited = async {
            match self.timeout(self.timeouts.dial, self.connect(offer)).await {
                Some(result) => result,
                None => Err(self.connect_timed_out(self.timeouts.dial)),
            }
        };
        let result = tokio::select! {
            biased;
            () = self.group.closed() => Err(HttpError::CredentialRotated { host: host.clone() }),
            result = limited => result,
        };
        match &result {
            Ok((_, protocol)) => {
                self.opened.fetch_add(1, Relaxed);
                tracing::debug!(%host, ?protocol, "connected");
            }
            Err(error) => tracing::debug!(%host, %error, "failed to connect"),
        }
        result
    }

    async fn connect(&self, offer: AlpnOffer) -> Result<(ConnIo, SelectedProtocol), HttpError> {
        let (timeouts, target) = (&self.timeouts, self.server.target());
        let stream = match self.timeout(timeouts.connect, self.route.connect(&target)).await {
            Some(stream) => stream?,
            None => return Err(self.connect_timed_out(timeouts.connect)),
        };
        let Some((session, name)) = &self.tls else {
            return Ok((ConnIo::new(Transport::Plain(stream), self.conn_state()), SelectedProtocol::Http1));
        };
        let config: &Arc<ClientConfig> = match offer {
            AlpnOffer::Any => &session.any,
            AlpnOffer::Http1 => &session.http1,
        };
        let handshake = TlsConnector::from(config.clone()).connect(name.clone(), ReadAhead::new(stream));
        let host = &self.peer();
        let stream = match self.timeout(timeouts.tls, handshake).await {
            Some(result) => result.map_err(|error| tls_error::handshake_error(host, &error))?,
            None => {
                return Err(HttpError::TimedOut { host: host.clone(), phase: ConnectPhase::Tls, after: timeouts.tls });
            }
        };
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => SelectedProtocol::Http2,
            _ => SelectedProtocol::Http1,
        };
        Ok((ConnIo::new(Transport::Tls(Box::new(stream)), self.conn_state()), protocol))
    }

    fn conn_state(&self) -> ConnState {
        let state = ConnState::new(self.peer(), self.group.clone());
        if self.route.is_renewable() {
            // An exec proxy may exit at any time, also on a new connection, and be replaced: failures count as retryable.
            state.set_proven();
        }
        state
    }

    /// The address of the TLS and HTTP peer: the exec proxy or the server.
    fn peer(&self) -> Arc<str> {
        let exec_proxy = self.route.via().filter(|_| self.route.is_renewable());
        exec_proxy.map_or_else(|| self.server.name().clone(), Arc::from)
    }

    /// Returns `None` on timeout.
    async fn timeout<T>(&self, timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            result = work => Some(result),
            () = self.clock.sleep(timeout) => None,
        }
    }

    /// Returns the error of a connect timeout, with the address of the proxy if there is one.
    fn connect_timed_out(&self, after: Duration) -> HttpError {
        let host = self.route.via().map_or_else(|| self.server.name().clone(), Arc::from);
        HttpError::TimedOut { host, phase: ConnectPhase::Connect, after }
    }
}
