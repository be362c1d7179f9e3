//! Accepts connections, authenticates clients and serves HTTP on each connection.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use credlet_platform::account::effective_user_id;
use credlet_platform::local_socket::{LocalListener, LocalStream};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::authority::AllowedAuthorities;
use super::connect;
use super::group_listener::GroupListener;
use super::metrics::InFlightGuard;
use super::options::BridgeMode;
use super::peer::AllowedPeers;
use super::pending::{ConnectionLimits, PeerOwners, PendingConnections, PendingSlot, QuotaShare, SlotTask, UserQuota};
use super::pipeline::{MAX_HEAD_SIZE, ProxyBody, RequestPipeline};
use super::siblings::{CertificateIssuer, SharedPort, SiblingDaemons};

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for the head of the next request. It exceeds the idle timeout of clients (90 s), so that clients close idle
/// connections: a request on a connection that the server is closing may be lost.
const HEAD_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of headers of a request. Impersonation sends one header per group.
const MAX_HEADERS: usize = 1_000;

/// All listening sockets of a proxy.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) socket: LocalListener,
    pub(super) peers: AllowedPeers,
    /// `None`: plain HTTP on the socket.
    pub(super) socket_tls: Option<Arc<ServerConfig>>,
    pub(super) socket_authorities: Arc<AllowedAuthorities>,
    pub(super) loopback: Option<LoopbackListener>,
    pub(super) shared: Option<GroupListener>,
}

/// Listener on a port of 127.0.0.1.
#[derive(Debug)]
pub(super) struct LoopbackListener {
    pub(super) port: SharedPort,
    /// Receives connections that sibling daemons accepted on the shared port.
    pub(super) handover: LocalListener,
    pub(super) mode: BridgeMode,
    pub(super) tls: Arc<ServerConfig>,
    pub(super) authorities: Arc<AllowedAuthorities>,
    pub(super) owners: Arc<PeerOwners>,
}

impl LoopbackListener {
    /// Pending forever if there is no listener.
    async fn accept(listener: Option<&Self>) -> io::Result<(TcpStream, SocketAddr, &Self)> {
        match listener {
            Some(listener) => listener.port.listener.accept().await.map(|(stream, remote)| (stream, remote, listener)),
            None => std::future::pending().await,
        }
    }

    /// Accepts a connection from a sibling daemon. Pending forever if there is no listener.
    async fn next_handover(listener: Option<&Self>) -> io::Result<(LocalStream, &Self)> {
        match listener {
            Some(listener) => Ok((listener.handover.accept().await?, listener)),
            None => std::future::pending().await,
        }
    }
}

/// Pending forever if there is no listener.
async fn accept_shared(listener: Option<&GroupListener>) -> io::Result<(LocalStream, &GroupListener)> {
    match listener {
        Some(listener) => Ok((listener.listener.accept().await?, listener)),
        None => std::future::pending().await,
    }
}

/// The open connections of a proxy.
pub(super) struct ConnectionSet {
    pipeline: Arc<RequestPipeline>,
    shutdown: watch::Receiver<bool>,
    open: JoinSet<()>,
    /// Connections to the port whose owning user is not known yet.
    unchecked: Arc<PendingConnections>,
    /// Connections before the end of the handshake, or before the first request where there is no handshake. Each
    /// listener has its own limit, so that group members cannot block the owner.
    at_port: Arc<PendingConnections>,
    at_socket: Arc<PendingConnections>,
    at_shared: Arc<PendingConnections>,
    user_quota: Arc<UserQuota>,
}

impl ConnectionSet {
    pub(super) fn new(pipeline: Arc<RequestPipeline>, shutdown: watch::Receiver<bool>) -> Self {
        let limits = ConnectionLimits::of_this_process();
        let [at_port, at_socket, at_shared] = [(); 3].map(|()| PendingConnections::new(limits.handshakes));
        let unchecked = PendingConnections::new(limits.unchecked);
        let user_quota = UserQuota::new(limits.per_user);
        Self { pipeline, shutdown, open: JoinSet::new(), unchecked, at_port, at_socket, at_shared, user_quota }
    }

    /// Accepts one connection or reaps one that is closed. Cancel safe.
    pub(super) async fn accept(&mut self, listeners: &Listeners) {
        let accepted = tokio::select! {
            accepted = listeners.socket.accept() => accepted.map(|stream| self.accept_socket(stream, listeners)),
            accepted = LoopbackListener::accept(listeners.loopback.as_ref()) => {
                accepted.map(|(stream, remote, listener)| self.accept_loopback(stream, remote, listener))
            }
            accepted = LoopbackListener::next_handover(listeners.loopback.as_ref()) => {
                accepted.map(|(stream, listener)| self.accept_handover(stream, listener))
            }
            accepted = accept_shared(listeners.shared.as_ref()) => {
                accepted.map(|(stream, listener)| self.accept_group(stream, listener, listeners))
            }
            Some(_) = self.open.join_next() => return,
        };
        if let Err(error) = accepted {
            // Probably out of file descriptors. An immediate retry would fail again.
            tracing::warn!(%error, "failed to accept a connection");
            for pending in [&self.unchecked, &self.at_port, &self.at_shared, &self.at_socket] {
                pending.evict_oldest();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Accepts the connections in the listen backlog and waits briefly for their requests. The clients cannot retry all
    /// of them on the next proxy, because a request may have been sent.
    pub(super) async fn accept_backlog(&mut self, listeners: &Listeners) {
        const SETTLE_TIME: Duration = Duration::from_millis(50);
        let over = tokio::time::sleep(SETTLE_TIME);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = self.accept(listeners) => {}
                () = &mut over => return,
            }
        }
    }

    /// Returns when all connections are closed.
    pub(super) async fn drain(mut self) {
        while self.open.join_next().await.is_some() {}
    }

    fn accept_socket(&mut self, stream: LocalStream, listeners: &Listeners) {
        let Some(share) = self.share(listeners.peers.admit(&stream)) else { return };
        let (connection, task) = self.connection(&listeners.socket_authorities, &self.at_socket, share);
        task.set(match &listeners.socket_tls {
            None => self.open.spawn(connection.serve_http1(stream)),
            Some(tls) => self.open.spawn(connection.accept_tls(stream, tls.clone())),
        });
    }

    fn accept_group(&mut self, stream: LocalStream, listener: &GroupListener, listeners: &Listeners) {
        let Some(share) = self.share(listener.admit(&stream)) else { return };
        let (connection, task) = self.connection(&listeners.socket_authorities, &self.at_shared, share);
        task.set(self.open.spawn(connection.serve_http1(stream)));
    }

    /// Counts the connection against the quota of its user, unless that is the proxy's user. Returns `None` if the
    /// connection is rejected.
    fn share(&self, admitted: Option<u32>) -> Option<Option<QuotaShare>> {
        let own = effective_user_id();
        let share = admitted.and_then(|uid| match uid {
            uid if uid == own => Some(None),
            uid => self.user_quota.take(uid).map(Some),
        });
        if share.is_none() {
            self.pipeline.metrics.record_rejected_connection();
        }
        share
    }

    fn accept_loopback(&mut self, stream: TcpStream, remote: SocketAddr, listener: &LoopbackListener) {
        // Nagle's algorithm would delay the second part of a response until the client's delayed ACK.
        let _ = stream.set_nodelay(true);
        let (mut connection, task) = self.connection(&listener.authorities, &self.unchecked, None);
        let (tls, siblings, owners) = (listener.tls.clone(), listener.port.siblings.clone(), listener.owners.clone());
        let (mode, at_port) = (listener.mode, self.at_port.clone());
        task.set(self.open.spawn(async move {
            if owners.is_foreign(remote).await {
                return connection.pipeline.metrics.record_rejected_connection();
            }
            connection.slot.move_to(&at_port);
            match mode {
                BridgeMode::Server => Box::pin(connection.route_by_client_cert(stream, tls, siblings)).await,
                BridgeMode::ProxyUrl => Box::pin(connection.accept_connect_tunnel(stream, tls, siblings)).await,
            }
        }));
    }

    fn accept_handover(&mut self, stream: LocalStream, listener: &LoopbackListener) {
        // `also_serve` applies to the socket only; the port belongs to this user.
        if AllowedPeers::new(Vec::new()).admit(&stream).is_none() {
            self.pipeline.metrics.record_rejected_connection();
            return;
        }
        let (connection, task) = self.connection(&listener.authorities, &self.at_socket, None);
        task.set(self.open.spawn(connection.serve_handover(stream)));
    }

    fn connection(
        &self,
        authorities: &Arc<AllowedAuthorities>,
        pending: &Arc<PendingConnections>,
        share: Option<QuotaShare>,
    ) -> (ClientConnection, SlotTask) {
        let (slot, task) = pending.enter();
        let (pipeline, shutdown) = (self.pipeline.clone(), self.shutdown.clone());
        (ClientConnection { pipeline, authorities: Some(authorities.clone()), shutdown, slot: slot.with(share) }, task)
    }
}

/// A client connection and the state for serving it.
struct ClientConnection {
    pipeline: Arc<RequestPipeline>,
    /// `None` if the client belongs to another proxy. Its requests get a `401`.
    authorities: Option<Arc<AllowedAuthorities>>,
    shutdown: watch::Receiver<bool>,
    /// Pending until the handshake is complete, or until the first request where there is no handshake.
    slot: PendingSlot,
}

impl ClientConnection {
    async fn accept_connect_tunnel(self, mut stream: TcpStream, tls: Arc<ServerConfig>, siblings: Arc<SiblingDaemons>) {
        let Some(authorities) = &self.authorities else { return };
        match connect::read_request(&mut stream, authorities).await {
            Ok(ahead) => {
                if let Ok(tunnel) = connect::establish(stream, ahead).await {
                    self.route_by_client_cert(tunnel, tls, siblings).await;
                }
            }
            Err(error) => {
                tracing::warn!(?error, "rejected CONNECT request");
                self.pipeline.metrics.record_rejected_connection();
                // The client may have closed the connection.
                let _ = connect::reject(stream, error).await;
            }
        }
    }

    /// Serves a connection to the shared port, for which the kernel may have chosen a daemon other than the one that
    /// the client's certificate names.
    async fn route_by_client_cert<S>(mut self, stream: S, tls: Arc<ServerConfig>, siblings: Arc<SiblingDaemons>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Some(stream) = Box::pin(self.handshake(stream, tls)).await else { return };
        match siblings.issuer_of(stream.get_ref().1) {
            Some(CertificateIssuer::Own) => return self.serve_http(stream).await,
            Some(CertificateIssuer::Sibling(name)) => {
                if let Ok(sibling) = siblings.connect(&name).await {
                    tracing::debug!(name, "handed over connection to sibling daemon");
                    return self.hand_over(stream, sibling).await;
                }
            }
            None => {}
        }
        tracing::info!("rejected client of an exited daemon");
        self.authorities = None;
        self.serve_http(stream).await;
    }

    async fn accept_tls<S>(self, stream: S, tls: Arc<ServerConfig>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if let Some(stream) = Box::pin(self.handshake(stream, tls)).await {
            self.serve_http(stream).await;
        }
    }

    /// Boxed, because the stream is large and every future that holds it would reserve its size.
    async fn handshake<S>(&self, stream: S, tls: Arc<ServerConfig>) -> Option<Box<TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls).accept(stream)).await {
            Ok(Ok(stream)) => {
                self.slot.release();
                Some(Box::new(stream))
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "TLS handshake failed");
                self.pipeline.metrics.record_rejected_connection();
                None
            }
            Err(_) => {
                tracing::debug!("TLS handshake timed out");
                None
            }
        }
    }

    async fn serve_http<S>(self, stream: Box<TlsStream<S>>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        match NegotiatedProtocol::on(&stream) {
            NegotiatedProtocol::Http1 => self.serve_http1(stream).await,
            NegotiatedProtocol::Http2 => self.serve_http2(stream).await,
        }
    }

    /// Forwards a connection to the sibling daemon that issued the client's certificate. At shutdown it is subject to
    /// the drain timeout.
    async fn hand_over<S>(self, mut stream: Box<TlsStream<S>>, mut sibling: LocalStream)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        const BUFFER: usize = 16 << 10;
        let _in_flight = InFlightGuard::begin(&self.pipeline.metrics, &self.pipeline.clock);
        if sibling.write_u8(NegotiatedProtocol::on(&stream) as u8).await.is_ok() {
            // Client and sibling see the error themselves.
            let _ = copy_bidirectional_with_sizes(&mut stream, &mut sibling, BUFFER, BUFFER).await;
        }
    }

    /// Serves a connection that a sibling daemon hands over.
    async fn serve_handover(self, mut stream: LocalStream) {
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.read_u8()).await {
            Ok(Ok(byte)) if byte == NegotiatedProtocol::Http1 as u8 => self.serve_http1(stream).await,
            Ok(Ok(byte)) if byte == NegotiatedProtocol::Http2 as u8 => self.serve_http2(stream).await,
            _ => tracing::debug!("malformed hand-over from a sibling daemon"),
        }
    }

    async fn serve_http1<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_headers(MAX_HEADERS);
        let shutdown = self.shutdown.clone();
        let served = builder.serve_connection(TokioIo::new(stream), self).with_upgrades();
        until_shutdown(Box::pin(served), http1::UpgradeableConnection::graceful_shutdown, shutdown).await;
    }

    async fn serve_http2<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(1_000)
            .max_header_list_size(MAX_HEAD_SIZE)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(16 << 20);
        let shutdown = self.shutdown.clone();
        let served = builder.serve_connection(TokioIo::new(stream), self);
        until_shutdown(Box::pin(served), http2::Connection::graceful_shutdown, shutdown).await;
    }
}

impl Service<Request<Incoming>> for ClientConnection {
    type Response = Response<ProxyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ProxyBody>, Infallible>> + Send>>;

    /// The future of a request takes some kilobytes. It is boxed so that they are freed with the response and not with
    /// the connection, which may serve a watch for hours.
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.slot.release();
        Box::pin(Arc::clone(&self.pipeline).handle(self.authorities.clone(), request))
    }
}

/// Protocol negotiated by ALPN. A sibling sends it as the first byte of a handed-over connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NegotiatedProtocol {
    Http1 = 1,
    Http2 = 2,
}

impl NegotiatedProtocol {
    fn on<S>(stream: &TlsStream<S>) -> Self {
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") { Self::Http2 } else { Self::Http1 }
    }
}

/// Serves a connection until it closes. At shutdown, lets requests in flight complete and then closes it.
///
/// Boxed, because every future that holds the connection would reserve its size.
async fn until_shutdown<C: Future>(
    mut served: Pin<Box<C>>,
    shut_down: fn(Pin<&mut C>),
    mut shutdown: watch::Receiver<bool>,
) {
    tokio::select! {
        biased;
        // The client sees the error itself.
        _ = served.as_mut() => return,
        _ = shutdown.wait_for(|shutdown| *shutdown) => {}
    }
    shut_down(served.as_mut());
    let _ = served.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_futures_stay_small() {
        fn plain<A, B, F>(_: fn(A, B) -> F) -> usize {
            size_of::<F>()
        }
        fn with_tls<A, B, C, F>(_: fn(A, B, C) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = (
            plain(ClientConnection::serve_http1::<LocalStream>),
            with_tls(ClientConnection::accept_tls::<LocalStream>),
        );
        assert!(bytes.0 <= 512 && bytes.1 <= 1024, "{bytes:?}");
    }
}
