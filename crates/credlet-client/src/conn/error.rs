use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What an error was caused by. Shared, because all who waited for one dial get the same error.
pub type Cause = Arc<dyn StdError + Send + Sync>;

/// Why there is no answer. The variants stand in the order of who must act: whoever wrote the configuration, the
/// caller, the network, the proxy, the server's operator, nobody.
///
/// None of them holds a header, a body, a key or a user name of a proxy.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the server cannot be used.
    #[error("the server's address {reason}")]
    Server {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The address of the proxy cannot be used.
    #[error("{origin} {reason}")]
    ProxyUrl {
        /// Where it is written: `proxy-url` or the name of a variable.
        origin: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The certificate authorities cannot be used.
    #[error("the certificate authorities {reason}")]
    Roots {
        /// What is wrong with them.
        reason: &'static str,
        /// What the TLS library says, if it was asked.
        #[source]
        source: Option<Cause>,
    },
    /// The client certificate cannot be used.
    #[error("the client certificate {reason}")]
    Identity {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A request for another server than the one these credentials are for. It was not sent.
    #[error("a request for {asked} does not belong on a connection to {host}")]
    OtherServer {
        /// Where the request wanted to go.
        asked: String,
        /// Whom the credentials are for.
        host: Arc<str>,
    },
    /// The caller's own request body failed while it was being sent.
    #[error("the request body for {host} could not be read")]
    RequestBody {
        /// The server.
        host: Arc<str>,
        /// What the body said.
        #[source]
        source: Cause,
    },
    /// No connection could be made.
    #[error("{host} cannot be reached")]
    Unreachable {
        /// The server, or the proxy before it.
        host: Arc<str>,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// Nobody listens where a plugin said that its proxy does.
    #[error("nobody listens at {host}")]
    Gone {
        /// The socket.
        host: Arc<str>,
        /// What the system said, or what became of the plugin.
        #[source]
        source: Cause,
    },
    /// A plugin's proxy cannot be used, or must not be.
    #[error("the plugin's proxy cannot be used: {reason}")]
    ExecProxy {
        /// Why not.
        reason: String,
    },
    /// A plugin's proxy was gone, and the plugin could not start another.
    #[error("the plugin's proxy at {host} is gone, and there is no other")]
    NotRenewed {
        /// The socket.
        host: Arc<str>,
        /// What became of the plugin.
        #[source]
        source: Cause,
    },
    /// Nothing came back in time while connecting.
    #[error("{host} did not answer within {} seconds ({step})", after.as_secs_f32())]
    TimedOut {
        /// The server, or the proxy before it.
        host: Arc<str>,
        /// What was waited for.
        step: Step,
        /// The limit.
        after: Duration,
    },
    /// The proxy would not connect us.
    #[error("the proxy {proxy} did not connect to {host}: {reason}")]
    ProxyRefused {
        /// The proxy.
        proxy: Arc<str>,
        /// The server behind it.
        host: Arc<str>,
        /// Its reason.
        reason: String,
    },
    /// The server showed a certificate that we do not accept.
    #[error("the certificate of {host} is not accepted: {reason}")]
    Certificate {
        /// The server.
        host: Arc<str>,
        /// Why not, in words.
        reason: String,
    },
    /// The two could not agree on TLS, or the server did not accept our certificate.
    #[error("no TLS connection with {host}: {reason}")]
    Handshake {
        /// The server.
        host: Arc<str>,
        /// Why not, in words.
        reason: String,
    },
    /// The server ended this one request.
    #[error("{host} reset the request ({reason})")]
    Reset {
        /// The server.
        host: Arc<str>,
        /// The HTTP/2 error code.
        reason: String,
    },
    /// The connection broke. What became of the request is not known.
    #[error("the connection to {host} broke: {reason}")]
    Broken {
        /// The server.
        host: Arc<str>,
        /// How, in words.
        reason: String,
        /// What the HTTP library said, if it had the request already.
        #[source]
        source: Option<Cause>,
    },
    /// We closed the connection, because its credential was replaced and the drain limit was over. A watch can be
    /// resumed at once.
    #[error("the connection to {host} was closed after its credential had been replaced")]
    Rotated {
        /// The server.
        host: Arc<str>,
    },
    /// The runtime in which the connection was being made has ended.
    #[error("the connection to {host} was given up while it was being made")]
    Stopped {
        /// The server.
        host: Arc<str>,
    },
}

impl Error {
    /// Whether the connection was closed by us and for good reason: see [`Error::Rotated`].
    pub fn is_rotated(&self) -> bool {
        matches!(self, Self::Rotated { .. })
    }

    /// Whether somebody else at the far end of the route could help.
    pub(super) fn asks_for_another_route(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Handshake { .. } | Self::Certificate { .. })
    }
}

/// What a dial was busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Looking up the name and connecting, through the proxy if there is one.
    Connect,
    /// The TLS handshake.
    Tls,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Tls => "TLS handshake",
        })
    }
}

/// The error itself and all its causes, outermost first.
pub(super) fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
