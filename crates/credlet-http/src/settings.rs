use std::sync::Arc;
use std::time::Duration;

use credlet_platform::Clock;

use super::{CryptoBackend, ProxyAddr, Route, ServerAddr, TrustRoots};

/// Configuration of an [`HttpClient`](crate::HttpClient). Fields that are not parameters of [`ClientSettings::new`] have
/// defaults, those of client-go where it has any.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Address of the API server.
    pub server: ServerAddr,
    /// Cryptography for TLS.
    pub crypto: CryptoBackend,
    /// Time source for timeouts and certificate verification.
    pub clock: Arc<dyn Clock>,
    /// Trust anchors for the server certificate. Default: the system's trust store.
    pub roots: TrustRoots,
    /// Name to verify in the server certificate. Default: the host of `server`.
    pub tls_server_name: Option<String>,
    /// Proxy to connect through, see [`proxy_for`](crate::proxy_for). Default: none.
    pub proxy: Option<ProxyAddr>,
    /// Transport to use in place of TCP and `proxy`. Default: none.
    pub route: Option<Arc<dyn Route>>,
    /// Timeouts for opening a connection.
    pub timeouts: ConnectTimeouts,
    /// HTTP protocol options.
    pub tuning: HttpTuning,
    /// Time that open requests and watches may continue after their client certificate was replaced. Default: unlimited.
    /// Zero closes their connections at once, as client-go does.
    pub drain_timeout: Option<Duration>,
    /// Number of retries of a request that the server did not process, or that is safe to repeat. Default: 2. With 0 the
    /// request is not copied.
    pub max_retries: u8,
}

impl ClientSettings {
    /// Returns the default settings for a server.
    pub fn new(server: ServerAddr, crypto: CryptoBackend, clock: Arc<dyn Clock>) -> Self {
        Self {
            server,
            crypto,
            clock,
            roots: TrustRoots::default(),
            tls_server_name: None,
            proxy: None,
            route: None,
            timeouts: ConnectTimeouts::default(),
            tuning: HttpTuning::default(),
            drain_timeout: None,
            max_retries: 2,
        }
    }
}

/// Timeouts for opening a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectTimeouts {
    /// Name resolution and TCP connection, including the proxy's part. Default: 30 s.
    pub connect: Duration,
    /// TLS handshake. Default: 10 s.
    pub tls: Duration,
    /// Both phases together. Default: 30 s.
    pub dial: Duration,
}

impl Default for ConnectTimeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(30), tls: Duration::from_secs(10), dial: Duration::from_secs(30) }
    }
}

/// HTTP protocol options.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpTuning {
    /// Whether to offer HTTP/2. Default: true.
    pub http2: bool,
    /// Whether a read uses an HTTP/1.1 connection while no other request is in flight. It costs less than HTTP/2 as long
    /// as there is nothing to multiplex, and one more connection. Default: false.
    pub prefer_http1_when_idle: bool,
    /// Time after which an idle connection is closed. Default: 90 s, as in client-go and the API server.
    pub idle_timeout: Duration,
    /// Maximum number of idle HTTP/1.1 connections. Default: 25, as in client-go. A proxy for many clients needs more, or
    /// it reconnects all the time.
    pub max_idle_connections: usize,
    /// HTTP/2 keep-alive pings. Without them a watch on a dead network never fails.
    pub ping: Option<PingSettings>,
    /// Flow-control window of a stream in bytes. Default: 1 MiB.
    pub stream_window: u32,
    /// Flow-control window of a connection in bytes. Default: 128 MiB. Divided by `stream_window` it limits the streams
    /// per connection, so that slow readers cannot block the other streams.
    pub connection_window: u32,
    /// Maximum size of the response headers in bytes. Default: 1 MiB.
    pub max_header_list_size: u32,
}

impl Default for HttpTuning {
    fn default() -> Self {
        Self {
            http2: true,
            prefer_http1_when_idle: false,
            idle_timeout: Duration::from_secs(90),
            max_idle_connections: 25,
            ping: Some(PingSettings::default()),
            stream_window: 1 << 20,
            connection_window: 128 << 20,
            max_header_list_size: 1 << 20,
        }
    }
}

impl HttpTuning {
    /// The number of streams whose windows fit into the connection window together.
    pub(super) fn max_streams(&self) -> usize {
        let streams = self.connection_window / self.stream_window.max(1);
        usize::try_from(streams).unwrap_or(usize::MAX).max(1)
    }
}

/// HTTP/2 keep-alive pings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PingSettings {
    /// Silence after which a ping is sent. Default: 30 s.
    pub interval: Duration,
    /// Time to wait for the response before the connection counts as dead. Default: 15 s.
    pub timeout: Duration,
}

impl Default for PingSettings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), timeout: Duration::from_secs(15) }
    }
}
