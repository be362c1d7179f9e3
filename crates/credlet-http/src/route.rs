use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower_service::Service as _;

use super::error::{SharedError, chain};
use super::{ConnectPhase, HostPort, HttpCredential, HttpError, TrustRoots};

/// Transport of a connection, below TLS.
pub type BoxedStream = Box<dyn AsyncStream>;

/// Future of [`Route::connect`].
pub type ConnectFuture<'a> = Pin<Box<dyn Future<Output = Result<BoxedStream, HttpError>> + Send + 'a>>;

/// Future of [`Route::renew`].
pub type RenewFuture<'a> = Pin<Box<dyn Future<Output = Result<HttpCredential, HttpError>> + Send + 'a>>;

/// A stream that can be read and written, the content of a [`BoxedStream`].
pub trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for T {}

/// Opens the transport of a connection: TCP, a tunnel through a proxy, or the Unix socket of an exec proxy. TLS, timeouts
/// and pooling are the same for all routes.
pub trait Route: fmt::Debug + Send + Sync {
    /// Opens one transport. The future is dropped on timeout.
    ///
    /// # Errors
    /// Usually [`HttpError::Unreachable`] or [`HttpError::ProxyRefused`]. [`HttpError::NotListening`] triggers
    /// [`renew`](Self::renew).
    fn connect<'a>(&'a self, target: &'a HostPort) -> ConnectFuture<'a>;

    /// Returns the address to name in a connect timeout. `None`: the server.
    fn via(&self) -> Option<&str> {
        None
    }

    /// Returns whether the transport is safe without TLS although the server address has the scheme `https`, like a Unix
    /// socket of the same user.
    fn is_private(&self) -> bool {
        false
    }

    /// Returns the TLS configuration if an intermediary, and not the server, terminates TLS.
    fn intermediary_tls(&self) -> Option<IntermediaryTls> {
        None
    }

    /// Returns whether [`renew`](Self::renew) can replace a peer that has exited.
    fn is_renewable(&self) -> bool {
        false
    }

    /// Replaces a peer that has exited or failed the TLS handshake. Returns a credential with the new route.
    /// `generation` is that of the credential with this route; concurrent calls share one replacement.
    ///
    /// # Errors
    /// If the peer cannot be replaced. The default implementation returns `cause`.
    fn renew<'a>(&'a self, generation: u64, cause: HttpError) -> RenewFuture<'a> {
        let _ = generation;
        Box::pin(async { Err(cause) })
    }

    /// Returns the forwarding options if a proxy forwards each request in place of a tunnel.
    fn forwarding(&self) -> Option<ProxyForwarding> {
        None
    }
}

/// TLS with an intermediary. It requires TLS 1.3, and the client certificate is presented to the intermediary.
#[derive(Clone, Debug)]
pub struct IntermediaryTls {
    /// Trust anchors for the intermediary's certificate.
    pub roots: TrustRoots,
    /// Name to verify in that certificate.
    pub name: String,
}

/// Options for a proxy that forwards single requests: they have an absolute URL and the credential for the proxy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProxyForwarding {
    /// Value of `Proxy-Authorization`, marked sensitive.
    pub authorization: Option<HeaderValue>,
}

/// TCP to the server, with `TCP_NODELAY` and keep-alive probes after 30 s, as in client-go.
///
/// If a name has addresses of both families, the second family is tried 300 ms after the first (RFC 8305).
#[derive(Clone)]
pub struct DirectRoute {
    connector: HttpConnector,
    timeout: Duration,
}

impl DirectRoute {
    /// Creates a route with this timeout for name resolution and connection.
    pub fn new(timeout: Duration) -> Self {
        const KEEP_ALIVE: Duration = Duration::from_secs(30);
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        // Off by default: Nagle's algorithm delays a request of 20 kB by 44 ms on a loopback device.
        connector.set_nodelay(true);
        connector.set_keepalive(Some(KEEP_ALIVE));
        connector.set_keepalive_interval(Some(KEEP_ALIVE));
        // The connector divides it among the addresses of a name, so that one dead address does not use it up.
        connector.set_connect_timeout(Some(timeout));
        Self { connector, timeout }
    }

    async fn tcp(&self, target: &HostPort) -> Result<TcpStream, HttpError> {
        let uri = Uri::builder().scheme("http").authority(target.to_string()).path_and_query("/").build();
        let uri = uri.map_err(|error| self.connect_error(target, &error))?;
        let stream = self.connector.clone().call(uri).await.map_err(|error| self.connect_error(target, &error))?;
        Ok(stream.into_inner())
    }

    /// Keeps the error of the operating system and drops the layers in between.
    fn connect_error(&self, target: &HostPort, error: &(dyn StdError + 'static)) -> HttpError {
        let host = target.to_string().into();
        let source: SharedError = match chain(error).find_map(|error| error.downcast_ref::<io::Error>()) {
            Some(error) if error.kind() == io::ErrorKind::TimedOut => {
                return HttpError::TimedOut { host, phase: ConnectPhase::Connect, after: self.timeout };
            }
            Some(error) => match error.raw_os_error() {
                Some(code) => Arc::new(io::Error::from_raw_os_error(code)),
                None => Arc::new(io::Error::new(error.kind(), error.to_string())),
            },
            None => Arc::new(io::Error::other(error.to_string())),
        };
        HttpError::Unreachable { host, source }
    }
}

impl fmt::Debug for DirectRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectRoute")
    }
}

impl Route for DirectRoute {
    fn connect<'a>(&'a self, target: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(async move { Ok(Box::new(self.tcp(target).await?) as BoxedStream) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sets_nodelay_and_keepalive() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let stream = DirectRoute::new(Duration::from_secs(30)).tcp(&HostPort::new(host, port)).await.unwrap();
            assert!(stream.nodelay().unwrap());
            assert!(rustix::net::sockopt::socket_keepalive(&stream).unwrap());
            assert_eq!(rustix::net::sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(30));
        }
    }

    #[tokio::test]
    async fn error_has_address_and_os_error() {
        let direct = DirectRoute::new(Duration::from_secs(30));
        let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let error = direct.tcp(&HostPort::new("127.0.0.1", port)).await.unwrap_err();
        assert_eq!(error.to_string(), format!("127.0.0.1:{port} cannot be reached"));
        assert_eq!(error.source().unwrap().to_string(), "Connection refused (os error 111)");
        let error = direct.tcp(&HostPort::new("no-such-host.invalid", 443)).await.unwrap_err();
        assert_eq!(error.to_string(), "no-such-host.invalid:443 cannot be reached");
        assert!(error.source().unwrap().to_string().starts_with("failed to lookup address"));
    }
}
