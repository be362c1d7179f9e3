use std::sync::Arc;
use std::time::Duration;

use credlet_core::Clock;

use super::{Crypto, Proxy, Roots, Route, Server};

/// How to reach a server. The fields that [`Settings::new`] does not ask for have defaults, those of client-go where
/// it has any.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The server.
    pub server: Server,
    /// What TLS is made of.
    pub crypto: Crypto,
    /// Gives the time to limits, and to the judgement of certificates.
    pub clock: Arc<dyn Clock>,
    /// Whom to believe. The system's authorities by default.
    pub roots: Roots,
    /// The name to expect in the server's certificate. Its host by default.
    pub tls_server_name: Option<String>,
    /// The proxy to go through, see [`Proxy::choose`]. None by default.
    pub proxy: Option<Proxy>,
    /// Another way than TCP, with or without a proxy. None by default.
    pub route: Option<Arc<dyn Route>>,
    /// How long connecting may take.
    pub limits: Limits,
    /// How HTTP is spoken.
    pub tuning: Tuning,
    /// After a certificate was replaced, how long open requests and watches may go on under the old one. No limit by
    /// default; zero cuts them at once, as client-go does.
    pub drain: Option<Duration>,
    /// How often a request is sent again that the server has not processed, or that can do no harm twice. 2 by
    /// default. With 0 no copy of the request is made.
    pub replays: u8,
}

impl Settings {
    /// To this server, as client-go would.
    pub fn new(server: Server, crypto: Crypto, clock: Arc<dyn Clock>) -> Self {
        Self {
            server,
            crypto,
            clock,
            roots: Roots::default(),
            tls_server_name: None,
            proxy: None,
            route: None,
            limits: Limits::default(),
            tuning: Tuning::default(),
            drain: None,
            replays: 2,
        }
    }
}

/// How long the steps of a dial may take.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Looking up the name and connecting, through the proxy too: 30 s.
    pub connect: Duration,
    /// The TLS handshake: 10 s.
    pub tls: Duration,
    /// Both together: 30 s.
    pub dial: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(30), tls: Duration::from_secs(10), dial: Duration::from_secs(30) }
    }
}

/// How HTTP is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// Whether to offer HTTP/2. Yes by default.
    pub http2: bool,
    /// Whether a read that meets no other one goes over an HTTP/1.1 connection of its own, which costs less than HTTP/2
    /// does as long as there is nothing to share. No by default: it takes one connection more.
    pub lone_http1: bool,
    /// After how long a connection that nobody uses is closed: 90 s, as client-go and the API server have it.
    pub idle: Duration,
    /// How many connections that nobody uses are kept, where each takes one request at a time (HTTP/1.1): 25, as
    /// client-go. Whoever sends for many clients needs more, or connects anew all the time.
    pub idle_connections: usize,
    /// Whether and how to ask a silent server for a sign of life. Without it a watch on a dead network waits for ever.
    pub ping: Option<Ping>,
    /// How much of one answer may lie unread: 1 MiB.
    pub stream_window: u32,
    /// How much of all answers on a connection may lie unread: 128 MiB. The quotient of the two limits the streams on
    /// a connection, so that no number of slow readers can stop another one.
    pub connection_window: u32,
    /// How large the head of an answer may be: 1 MiB.
    pub max_header_list_size: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            http2: true,
            lone_http1: false,
            idle: Duration::from_secs(90),
            idle_connections: 25,
            ping: Some(Ping::default()),
            stream_window: 1 << 20,
            connection_window: 128 << 20,
            max_header_list_size: 1 << 20,
        }
    }
}

impl Tuning {
    /// How many streams together cannot fill the connection's window.
    pub(super) fn max_streams(&self) -> usize {
        let streams = self.connection_window / self.stream_window.max(1);
        usize::try_from(streams).unwrap_or(usize::MAX).max(1)
    }
}

/// HTTP/2 pings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ping {
    /// After so much silence: 30 s.
    pub interval: Duration,
    /// And then so much more the connection is dead: 15 s.
    pub timeout: Duration,
}

impl Default for Ping {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), timeout: Duration::from_secs(15) }
    }
}
