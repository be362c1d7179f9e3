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

use super::error::{Cause, chain};
use super::{Credential, Error, Roots, Step, Target};

/// A stream of bytes both ways, before TLS.
pub type Wire = Box<dyn Duplex>;

/// A future that a [`Route`] returns.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Wire, Error>> + Send + 'a>>;

/// The future of [`Route::renew`].
pub type Renewing<'a> = Pin<Box<dyn Future<Output = Result<Credential, Error>> + Send + 'a>>;

/// What [`Wire`] holds: anything that can be read and written.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The way a connection takes to the server: straight, through a proxy, or into a Unix socket behind which an exec
/// proxy listens. TLS, limits and the pool lie above it and are the same for all.
pub trait Route: fmt::Debug + Send + Sync {
    /// Makes one connection. It is dropped when the dial limit is over.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::ProxyRefused`], or whatever tells best who must act. [`Error::Gone`] asks for
    /// [`renew`](Self::renew).
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a>;

    /// Whom to name when nothing answers. `None`: the server itself.
    fn via(&self) -> Option<&str> {
        None
    }

    /// Whether the far end is safe to talk to without TLS although the server's address says `https`: a Unix socket
    /// of the same user is.
    fn is_private(&self) -> bool {
        false
    }

    /// Set when TLS is spoken with somebody at the far end who is not the server.
    fn hop(&self) -> Option<Hop> {
        None
    }

    /// Whether [`renew`](Self::renew) can do anything about a far end that is gone.
    fn is_renewable(&self) -> bool {
        false
    }

    /// Somebody else at the far end, or elsewhere, in place of one that is gone or that we could not speak TLS with:
    /// a credential with the new route in it. `serial` is that of the one with this route, so that one new one serves
    /// all who ask.
    ///
    /// # Errors
    /// That there is none.
    fn renew<'a>(&'a self, serial: u64, gone: Error) -> Renewing<'a> {
        let _ = serial;
        Box::pin(async { Err(gone) })
    }

    /// Set when requests are handed to a proxy one by one, in its own form, and not through a tunnel.
    fn forwarding(&self) -> Option<Forwarding> {
        None
    }
}

/// TLS with somebody on the way. It is version 1.3, and the client certificate is for them.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Whom to believe.
    pub roots: Roots,
    /// The name to expect in their certificate.
    pub name: String,
}

/// Requests are written for a proxy that passes each on: with the whole URL, and with the proxy's own credential.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Forwarding {
    /// `Proxy-Authorization`, marked sensitive.
    pub authorization: Option<HeaderValue>,
}

/// Straight to the server by TCP, without delay and with keep-alive probes after 30 s, as client-go does.
///
/// A name with addresses of both families is tried in both, 300 ms apart (RFC 8305).
#[derive(Clone)]
pub struct Direct {
    tcp: HttpConnector,
    limit: Duration,
}

impl Direct {
    /// Connects within this limit.
    pub fn new(limit: Duration) -> Self {
        const KEEP_ALIVE: Duration = Duration::from_secs(30);
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // Off by default, and then a request of 20 kB takes 44 ms on a loopback device.
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        // It is shared out among the addresses of a name, so that one dead address does not use it up.
        tcp.set_connect_timeout(Some(limit));
        Self { tcp, limit }
    }

    async fn tcp(&self, target: &Target) -> Result<TcpStream, Error> {
        let uri = Uri::builder().scheme("http").authority(target.to_string()).path_and_query("/").build();
        let uri = uri.map_err(|error| self.failure(target, &error))?;
        let stream = self.tcp.clone().call(uri).await.map_err(|error| self.failure(target, &error))?;
        Ok(stream.into_inner())
    }

    /// Keeps what the system said and leaves out the layers between.
    fn failure(&self, target: &Target, error: &(dyn StdError + 'static)) -> Error {
        let host = target.to_string().into();
        let source: Cause = match chain(error).find_map(|error| error.downcast_ref::<io::Error>()) {
            Some(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Error::TimedOut { host, step: Step::Connect, after: self.limit };
            }
            Some(error) => match error.raw_os_error() {
                Some(code) => Arc::new(io::Error::from_raw_os_error(code)),
                None => Arc::new(io::Error::new(error.kind(), error.to_string())),
            },
            None => Arc::new(io::Error::other(error.to_string())),
        };
        Error::Unreachable { host, source }
    }
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Direct")
    }
}

impl Route for Direct {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async move { Ok(Box::new(self.tcp(target).await?) as Wire) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tcp_does_not_delay_and_asks_a_silent_peer_for_a_sign_of_life() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let stream = Direct::new(Duration::from_secs(30)).tcp(&Target::new(host, port)).await.unwrap();
            assert!(stream.nodelay().unwrap());
            assert!(rustix::net::sockopt::socket_keepalive(&stream).unwrap());
            assert_eq!(rustix::net::sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(30));
        }
    }

    #[tokio::test]
    async fn who_cannot_be_reached_is_named_with_the_systems_own_words() {
        let direct = Direct::new(Duration::from_secs(30));
        let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let error = direct.tcp(&Target::new("127.0.0.1", port)).await.unwrap_err();
        assert_eq!(error.to_string(), format!("127.0.0.1:{port} cannot be reached"));
        assert_eq!(error.source().unwrap().to_string(), "Connection refused (os error 111)");
        let error = direct.tcp(&Target::new("no-such-host.invalid", 443)).await.unwrap_err();
        assert_eq!(error.to_string(), "no-such-host.invalid:443 cannot be reached");
        assert!(error.source().unwrap().to_string().starts_with("failed to lookup address"));
    }
}
