use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use credlet_exec::{PluginProxy, ProcessExit, RunningProcess};
use credlet_http::{BoxedStream, ConnectFuture, HostPort, HttpError, IntermediaryTls, Route, TrustRoots};
use credlet_platform::local_socket::{ConnectError, LocalStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::ExecProxies;
use crate::endpoint::ProxyEndpoint;

/// Route to one proxy.
#[derive(Debug)]
pub(super) struct ProxyRoute {
    endpoint: ProxyEndpoint,
    /// The endpoint as a URL.
    name: Arc<str>,
    /// Trust anchors for the proxy's certificate. Empty: no TLS, only on a Unix socket.
    authorities: Vec<u8>,
    lifeline: ProxyLifeline,
}

/// Keeps the proxy alive while a route or connection exists.
#[derive(Clone, Debug)]
struct ProxyLifeline {
    /// The proxy shuts down when this lock is released.
    _lock: Arc<ExecProxies>,
    /// The plugin's process, if it is the proxy itself.
    process: Option<RunningProcess>,
}

impl ProxyRoute {
    /// Returns a description of the defect if the plugin's output is invalid.
    pub(super) fn new(lock: Arc<ExecProxies>, proxy: &PluginProxy, identity: bool) -> Result<Self, String> {
        let endpoint = ProxyEndpoint::parse(&proxy.config.url).map_err(|error| error.to_string())?;
        let authorities = proxy.config.certificate_authority_data.clone();
        if matches!(endpoint, ProxyEndpoint::Loopback(_)) && (authorities.is_empty() || !identity) {
            return Err(
                "invalid proxyConfig: an https url requires certificate-authority-data and a client certificate".into(),
            );
        }
        let lifeline = ProxyLifeline { _lock: lock, process: proxy.process.clone() };
        Ok(Self { name: endpoint.to_string().into(), endpoint, authorities, lifeline })
    }

    async fn open(&self) -> Result<BoxedStream, HttpError> {
        // A proxy that exited with success may have been replaced by another at the same address.
        let exit = self.lifeline.process.as_ref().and_then(RunningProcess::exit).filter(|exit| !exit.is_success());
        if let Some(exit) = exit {
            return Err(self.endpoint_lost(PluginExited(exit)));
        }
        match &self.endpoint {
            ProxyEndpoint::Unix(path) => {
                // The caller applies the connect timeout.
                let stream = LocalStream::connect_trusted(path).await.map_err(|error| self.not_connected(error))?;
                Ok(self.guarded(stream))
            }
            ProxyEndpoint::Loopback(address) => {
                let stream = TcpStream::connect(address).await.map_err(|error| self.failure(error))?;
                stream.set_nodelay(true).map_err(|error| self.failure(error))?;
                Ok(self.guarded(stream))
            }
        }
    }

    fn guarded(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> BoxedStream {
        Box::new(GuardedStream { stream, _lifeline: self.lifeline.clone() })
    }

    fn not_connected(&self, error: ConnectError) -> HttpError {
        match error {
            ConnectError::Missing(error) => self.endpoint_lost(error),
            ConnectError::Io(error) => self.failure(error),
            error => HttpError::ExecProxy { reason: error.to_string() },
        }
    }

    fn failure(&self, error: io::Error) -> HttpError {
        match error.kind() {
            // ConnectionReset: the proxy exited before it accepted the connection.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                self.endpoint_lost(error)
            }
            _ => HttpError::Unreachable { host: Arc::clone(&self.name), source: Arc::new(error) },
        }
    }

    fn endpoint_lost(&self, source: impl std::error::Error + Send + Sync + 'static) -> HttpError {
        HttpError::NotListening { host: Arc::clone(&self.name), source: Arc::new(source) }
    }
}

impl Route for ProxyRoute {
    /// The proxy knows its API server, so the target is ignored.
    fn connect<'a>(&'a self, _: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(self.open())
    }

    fn via(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn is_private(&self) -> bool {
        matches!(self.endpoint, ProxyEndpoint::Unix(_))
    }

    fn intermediary_tls(&self) -> Option<IntermediaryTls> {
        let name = match &self.endpoint {
            ProxyEndpoint::Unix(_) => "localhost".to_owned(),
            ProxyEndpoint::Loopback(address) => address.ip().to_string(),
        };
        (!self.authorities.is_empty())
            .then(|| IntermediaryTls { roots: TrustRoots::Pem(self.authorities.clone()), name })
    }
}

/// Exit status of a plugin that was the proxy.
#[derive(Debug, thiserror::Error)]
#[error("the plugin {0}")]
struct PluginExited(ProcessExit);

/// A stream that keeps the proxy alive.
struct GuardedStream<S> {
    stream: S,
    _lifeline: ProxyLifeline,
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
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
