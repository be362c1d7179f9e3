use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Source of an [`HttpError`]. It is shared because all requests that waited for one connection get the same error.
pub type SharedError = Arc<dyn StdError + Send + Sync>;

/// A request that got no response.
///
/// The variants are ordered by responsibility: configuration, caller, network, proxy, server, credlet itself. No variant
/// contains a header, a body, a key or the user name of a proxy.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The server address is invalid.
    #[error("invalid server address: it {reason}")]
    InvalidServer {
        /// Verb phrase that describes the defect.
        reason: &'static str,
    },
    /// The proxy URL is invalid.
    #[error("invalid {origin}: it {reason}")]
    InvalidProxy {
        /// Source of the URL: `proxy-url` or the name of an environment variable.
        origin: &'static str,
        /// Verb phrase that describes the defect.
        reason: &'static str,
    },
    /// The trust roots cannot be loaded.
    #[error("invalid certificate authorities: {reason}")]
    TrustRoots {
        /// Description of the defect.
        reason: &'static str,
        /// Error of the TLS library.
        #[source]
        source: Option<SharedError>,
    },
    /// The client certificate or its key cannot be loaded.
    #[error("invalid client certificate: {reason}")]
    ClientCertificate {
        /// Description of the defect.
        reason: &'static str,
    },
    /// The request names another server than the one that the credentials are for. It was not sent.
    #[error("cannot send a request for {requested} to {host}")]
    OtherServer {
        /// Host in the request.
        requested: String,
        /// Server that the client connects to.
        host: Arc<str>,
    },
    /// The request body returned an error while it was sent.
    #[error("failed to read the request body for {host}")]
    RequestBody {
        /// Server address as `host:port`.
        host: Arc<str>,
        /// Error of the body.
        #[source]
        source: SharedError,
    },
    /// The TCP connection failed.
    #[error("{host} cannot be reached")]
    Unreachable {
        /// Address of the server, or of the proxy in front of it.
        host: Arc<str>,
        /// Error of the operating system.
        #[source]
        source: SharedError,
    },
    /// No process listens on the socket that an exec plugin printed.
    #[error("cannot connect to the exec proxy at {host}")]
    NotListening {
        /// Address of the exec proxy's socket.
        host: Arc<str>,
        /// Error of the operating system, or the plugin's exit status.
        #[source]
        source: SharedError,
    },
    /// The exec proxy is misconfigured or failed a safety check.
    #[error("cannot use the plugin's exec proxy: {reason}")]
    ExecProxy {
        /// Description of the failed check.
        reason: String,
    },
    /// The exec proxy exited and the plugin failed to start another one.
    #[error("failed to replace the exec proxy at {host}")]
    NotRenewed {
        /// Address of the exec proxy's socket.
        host: Arc<str>,
        /// Error of the plugin.
        #[source]
        source: SharedError,
    },
    /// Connecting timed out.
    #[error("connection to {host} timed out after {} s ({phase})", after.as_secs_f32())]
    TimedOut {
        /// Address of the server, or of the proxy in front of it.
        host: Arc<str>,
        /// Phase in progress when the time was up.
        phase: ConnectPhase,
        /// Timeout that expired.
        after: Duration,
    },
    /// The proxy rejected the connection to the server.
    #[error("proxy {proxy} failed to connect to {host}: {reason}")]
    ProxyRefused {
        /// Proxy address as `host:port`.
        proxy: Arc<str>,
        /// Address of the server behind the proxy.
        host: Arc<str>,
        /// Status or error code of the proxy, as text.
        reason: String,
    },
    /// The server certificate failed verification.
    #[error("invalid certificate of {host}: {reason}")]
    Certificate {
        /// Server address as `host:port`.
        host: Arc<str>,
        /// Reason of the failed verification.
        reason: String,
    },
    /// The TLS handshake failed, for example because the server rejected the client certificate.
    #[error("TLS handshake with {host} failed: {reason}")]
    Handshake {
        /// Server address as `host:port`.
        host: Arc<str>,
        /// TLS error or alert.
        reason: String,
    },
    /// The server reset the HTTP/2 stream of this request.
    #[error("request failed: {host} reset the stream ({reason})")]
    Reset {
        /// Server address as `host:port`.
        host: Arc<str>,
        /// HTTP/2 error code.
        reason: String,
    },
    /// The connection failed. Whether the server processed the request is unknown.
    #[error("connection to {host} failed: {reason}")]
    ConnectionLost {
        /// Server address as `host:port`.
        host: Arc<str>,
        /// Description of the failure.
        reason: String,
        /// Error of the HTTP library, if the request had been handed to it.
        #[source]
        source: Option<SharedError>,
    },
    /// The connection was closed on this side: its credential was replaced and the drain timeout expired. A watch can be
    /// resumed at once.
    #[error("connection to {host} closed: its credential was replaced")]
    CredentialRotated {
        /// Server address as `host:port`.
        host: Arc<str>,
    },
    /// The connection attempt was canceled: the runtime shut down or the connection pool was retired.
    #[error("connection to {host} could not be completed: canceled")]
    Canceled {
        /// Server address as `host:port`.
        host: Arc<str>,
    },
}

impl From<credlet_api::address::ServerAddrError> for HttpError {
    fn from(error: credlet_api::address::ServerAddrError) -> Self {
        Self::InvalidServer { reason: error.reason() }
    }
}

impl HttpError {
    /// Returns whether the client itself closed the connection, see [`HttpError::CredentialRotated`].
    pub fn is_credential_rotated(&self) -> bool {
        matches!(self, Self::CredentialRotated { .. })
    }

    /// Whether another peer at the end of the route could succeed, so that [`Route::renew`](crate::Route::renew)
    /// is worth a try.
    pub(super) fn needs_another_route(&self) -> bool {
        matches!(self, Self::NotListening { .. } | Self::Handshake { .. } | Self::Certificate { .. })
    }
}

/// Phase of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectPhase {
    /// Name resolution and TCP connection, including the proxy's part.
    Connect,
    /// TLS handshake with the server, after the connection is established.
    Tls,
}

impl fmt::Display for ConnectPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Tls => "TLS handshake",
        })
    }
}

/// Returns the error and its sources, outermost first.
pub(super) fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
