use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use credlet_client::conn::{Connecting, Error, Hop, Roots, Route, Target, Wire};
use credlet_core::{Ended, Process, Proxy};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::ExecProxies;
use super::check::{self, Refused};
use crate::endpoint::Endpoint;

/// The way into one proxy.
#[derive(Debug)]
pub(super) struct ProxyRoute {
    endpoint: Endpoint,
    /// The endpoint as a URL.
    name: Arc<str>,
    /// What its certificate is checked with. Empty: no TLS, on a Unix socket.
    authorities: Vec<u8>,
    kept: Kept,
}

/// What must live as long as anything goes this way.
#[derive(Clone, Debug)]
struct Kept {
    /// The lock: without it the proxy would end.
    _lock: Arc<ExecProxies>,
    /// The proxy itself, perhaps.
    process: Option<Process>,
}

impl ProxyRoute {
    /// The error is what is wrong with the plugin's answer.
    pub(super) fn new(lock: Arc<ExecProxies>, proxy: &Proxy, identity: bool) -> Result<Self, String> {
        let endpoint = Endpoint::parse(&proxy.config.url).map_err(|error| error.to_string())?;
        let authorities = proxy.config.certificate_authority_data.clone();
        if matches!(endpoint, Endpoint::Loopback(_)) && (authorities.is_empty() || !identity) {
            return Err("its url is https, which takes a certificate-authority-data and a client certificate".into());
        }
        let kept = Kept { _lock: lock, process: proxy.process.clone() };
        Ok(Self { name: endpoint.to_string().into(), endpoint, authorities, kept })
    }

    async fn wire(&self) -> Result<Wire, Error> {
        // One that said goodbye properly may have left another in its place.
        let ended = self.kept.process.as_ref().and_then(Process::ended).filter(|ended| !ended.is_success());
        if let Some(ended) = ended {
            return Err(self.gone(PluginEnded(ended)));
        }
        match &self.endpoint {
            Endpoint::Unix(path) => {
                check::place(path).map_err(|refused| self.refused(refused))?;
                let stream =
                    when_there_is_room(|| UnixStream::connect(path)).await.map_err(|error| self.failure(error))?;
                check::listener(&stream, path).map_err(|refused| self.refused(refused))?;
                Ok(self.keeping(stream))
            }
            Endpoint::Loopback(address) => {
                let stream = TcpStream::connect(address).await.map_err(|error| self.failure(error))?;
                stream.set_nodelay(true).map_err(|error| self.failure(error))?;
                Ok(self.keeping(stream))
            }
        }
    }

    fn keeping(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Wire {
        Box::new(Keeping { stream, _kept: self.kept.clone() })
    }

    fn refused(&self, refused: Refused) -> Error {
        match refused {
            Refused::Missing(error) => self.gone(error),
            Refused::Unsafe(reason) => Error::ExecProxy { reason },
        }
    }

    fn failure(&self, error: io::Error) -> Error {
        match error.kind() {
            // The last one: it ended while we stood in its queue, and had not looked at us yet.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                self.gone(error)
            }
            _ => Error::Unreachable { host: Arc::clone(&self.name), source: Arc::new(error) },
        }
    }

    fn gone(&self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Gone { host: Arc::clone(&self.name), source: Arc::new(source) }
    }
}

impl Route for ProxyRoute {
    /// The server is the proxy's business.
    fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
        Box::pin(self.wire())
    }

    fn via(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn is_private(&self) -> bool {
        matches!(self.endpoint, Endpoint::Unix(_))
    }

    fn hop(&self) -> Option<Hop> {
        let name = match &self.endpoint {
            Endpoint::Unix(_) => "localhost".to_owned(),
            Endpoint::Loopback(address) => address.ip().to_string(),
        };
        (!self.authorities.is_empty()).then(|| Hop { roots: Roots::Pem(self.authorities.clone()), name })
    }
}

/// A socket whose listener has too many callers waiting says so at once, and not when there is room.
async fn when_there_is_room<T, F: Future<Output = io::Result<T>>>(connect: impl Fn() -> F) -> io::Result<T> {
    let mut pause = Duration::from_millis(1);
    loop {
        match connect().await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Whoever dials has a limit.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(100));
            }
            connected => return connected,
        }
    }
}

/// What became of a plugin that was the proxy.
#[derive(Debug, thiserror::Error)]
#[error("the plugin {0}")]
struct PluginEnded(Ended);

/// A connection that keeps its far end alive.
struct Keeping<S> {
    stream: S,
    _kept: Kept,
}

impl<S: AsyncRead + Unpin> AsyncRead for Keeping<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Keeping<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
