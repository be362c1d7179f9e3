//! From a listening socket to requests.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional_with_sizes};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::authority::Authorities;
use super::connect;
use super::metrics::InFlight;
use super::neighbours::{GivenBy, Neighbours, Port};
use super::options::Guise;
use super::peer::Peers;
use super::shared::SharedDoor;
use super::stack::{LARGEST_HEAD, Reply, Stack};

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a connection may go without the head of a request. Longer than clients keep idle ones (90 s), so that it is
/// they who close them: a request that meets a closing connection may be lost.
const HEAD: Duration = Duration::from_secs(120);

/// How many headers a request may have. Whoever acts for a member of many groups has one for each.
const MOST_HEADERS: usize = 1_000;

/// The ways in.
#[derive(Debug)]
pub(super) struct Doors {
    pub(super) socket: UnixListener,
    pub(super) peers: Peers,
    /// `None`: the socket speaks no TLS.
    pub(super) socket_tls: Option<Arc<ServerConfig>>,
    pub(super) socket_authorities: Arc<Authorities>,
    pub(super) loopback: Option<LoopbackDoor>,
    pub(super) shared: Option<SharedDoor>,
}

/// A port of 127.0.0.1.
#[derive(Debug)]
pub(super) struct LoopbackDoor {
    pub(super) port: Port,
    /// Where neighbours hand over what has come to them there and is for us.
    pub(super) beside: UnixListener,
    pub(super) guise: Guise,
    pub(super) tls: Arc<ServerConfig>,
    pub(super) authorities: Arc<Authorities>,
}

impl LoopbackDoor {
    /// Never returns if there is none.
    async fn accept(door: Option<&Self>) -> io::Result<(TcpStream, &Self)> {
        match door {
            Some(door) => Ok((door.port.listener.accept().await?.0, door)),
            None => std::future::pending().await,
        }
    }

    /// The same for what neighbours hand over.
    async fn accept_beside(door: Option<&Self>) -> io::Result<(UnixStream, &Self)> {
        match door {
            Some(door) => Ok((door.beside.accept().await?.0, door)),
            None => std::future::pending().await,
        }
    }
}

/// Never returns if there is none.
async fn accept_shared(door: Option<&SharedDoor>) -> io::Result<(UnixStream, &SharedDoor)> {
    match door {
        Some(door) => Ok((door.listener.accept().await?.0, door)),
        None => std::future::pending().await,
    }
}

/// The connections that are open.
pub(super) struct Connections {
    stack: Arc<Stack>,
    ending: watch::Receiver<bool>,
    open: JoinSet<()>,
}

impl Connections {
    pub(super) fn new(stack: Arc<Stack>, ending: watch::Receiver<bool>) -> Self {
        Self { stack, ending, open: JoinSet::new() }
    }

    /// Takes one in, or notes that one has ended. May be dropped at any time.
    pub(super) async fn accept(&mut self, doors: &Doors) {
        let accepted = tokio::select! {
            accepted = doors.socket.accept() => accepted.map(|(stream, _)| self.enter_socket(stream, doors)),
            accepted = LoopbackDoor::accept(doors.loopback.as_ref()) => {
                accepted.map(|(stream, door)| self.enter_loopback(stream, door))
            }
            accepted = LoopbackDoor::accept_beside(doors.loopback.as_ref()) => {
                accepted.map(|(stream, door)| self.enter_beside(stream, door))
            }
            accepted = accept_shared(doors.shared.as_ref()) => {
                accepted.map(|(stream, door)| self.enter_shared(stream, door, doors))
            }
            Some(_) = self.open.join_next() => return,
        };
        if let Err(error) = accepted {
            // Out of descriptors, most likely. Trying again at once would only burn time.
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Takes in whoever has connected but was not seen yet, and gives them a moment to send what they came for: their
    /// requests are not for the next proxy, and may not be sent twice.
    pub(super) async fn accept_waiting(&mut self, doors: &Doors) {
        const MOMENT: Duration = Duration::from_millis(50);
        let over = tokio::time::sleep(MOMENT);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = self.accept(doors) => {}
                () = &mut over => return,
            }
        }
    }

    /// Returns when all have ended.
    pub(super) async fn ended(mut self) {
        while self.open.join_next().await.is_some() {}
    }

    fn enter_socket(&mut self, stream: UnixStream, doors: &Doors) {
        if !doors.peers.admit(&stream) {
            self.stack.metrics.refused();
            return;
        }
        let guest = self.guest(&doors.socket_authorities);
        match &doors.socket_tls {
            None => self.open.spawn(guest.speak_http1(stream)),
            Some(tls) => self.open.spawn(guest.shake_hands(stream, tls.clone())),
        };
    }

    fn enter_shared(&mut self, stream: UnixStream, door: &SharedDoor, doors: &Doors) {
        if !door.admit(&stream) {
            self.stack.metrics.refused();
            return;
        }
        let guest = self.guest(&doors.socket_authorities);
        self.open.spawn(guest.speak_http1(stream));
    }

    fn enter_loopback(&mut self, stream: TcpStream, door: &LoopbackDoor) {
        // Else an answer in two parts waits for the client's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        let (guest, tls, neighbours) = (self.guest(&door.authorities), door.tls.clone(), door.port.neighbours.clone());
        match door.guise {
            Guise::Server => self.open.spawn(guest.say_whose(stream, tls, neighbours)),
            Guise::Proxy => self.open.spawn(guest.ask_for_tunnel(stream, tls, neighbours)),
        };
    }

    fn enter_beside(&mut self, stream: UnixStream, door: &LoopbackDoor) {
        // Whoever else may send requests by the sockets, the port is this user's own.
        if !Peers::new(Vec::new()).admit(&stream) {
            self.stack.metrics.refused();
            return;
        }
        let guest = self.guest(&door.authorities);
        self.open.spawn(guest.speak_as_handed_over(stream));
    }

    fn guest(&self, authorities: &Arc<Authorities>) -> Guest {
        Guest { stack: self.stack.clone(), authorities: Some(authorities.clone()), ending: self.ending.clone() }
    }
}

/// One connection.
struct Guest {
    stack: Arc<Stack>,
    /// `None`: it is somebody else's guest.
    authorities: Option<Arc<Authorities>>,
    ending: watch::Receiver<bool>,
}

impl Guest {
    async fn ask_for_tunnel(self, mut stream: TcpStream, tls: Arc<ServerConfig>, neighbours: Arc<Neighbours>) {
        let Some(authorities) = &self.authorities else { return };
        match connect::hear(&mut stream, authorities).await {
            Ok(ahead) => {
                if let Ok(tunnel) = connect::open(stream, ahead).await {
                    self.say_whose(tunnel, tls, neighbours).await;
                }
            }
            Err(trouble) => {
                tracing::warn!(?trouble, "a connection is refused before its handshake");
                self.stack.metrics.refused();
                // Who has gone needs no answer.
                let _ = connect::refuse(stream, trouble).await;
            }
        }
    }

    /// At the port, where the kernel may have chosen another of those who listen than the client means.
    async fn say_whose<S>(mut self, stream: S, tls: Arc<ServerConfig>, neighbours: Arc<Neighbours>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Some(stream) = Box::pin(self.handshake(stream, tls)).await else { return };
        match neighbours.whose(stream.get_ref().1) {
            Some(GivenBy::Us) => return self.speak(stream).await,
            Some(GivenBy::Neighbour(name)) => {
                if let Ok(neighbour) = neighbours.call(&name).await {
                    tracing::debug!(name, "a connection is handed over to the proxy that it is for");
                    return self.hand_over(stream, neighbour).await;
                }
            }
            None => {}
        }
        tracing::info!("a client of a proxy that is gone is told to ask again");
        self.authorities = None;
        self.speak(stream).await;
    }

    async fn shake_hands<S>(self, stream: S, tls: Arc<ServerConfig>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if let Some(stream) = Box::pin(self.handshake(stream, tls)).await {
            self.speak(stream).await;
        }
    }

    /// What it gives comes in a box, for it is large, and a future that it is handed to has a place of that size.
    async fn handshake<S>(&self, stream: S, tls: Arc<ServerConfig>) -> Option<Box<TlsStream<S>>>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream)).await {
            Ok(Ok(stream)) => Some(Box::new(stream)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "a connection is refused in its handshake");
                self.stack.metrics.refused();
                None
            }
            Err(_) => {
                tracing::debug!("a handshake took too long");
                None
            }
        }
    }

    async fn speak<S>(self, stream: Box<TlsStream<S>>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        match Spoken::on(&stream) {
            Spoken::Http1 => self.speak_http1(stream).await,
            Spoken::Http2 => self.speak_http2(stream).await,
        }
    }

    /// Hands a connection to the neighbour whose it is, for as long as it lasts. At our end it has the drain limit.
    async fn hand_over<S>(self, mut stream: Box<TlsStream<S>>, mut neighbour: UnixStream)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        const BUFFER: usize = 16 << 10;
        let _in_flight = InFlight::begin(&self.stack.metrics, &self.stack.clock);
        if neighbour.write_u8(Spoken::on(&stream) as u8).await.is_ok() {
            // How it ended is known to those who spoke.
            let _ = copy_bidirectional_with_sizes(&mut stream, &mut neighbour, BUFFER, BUFFER).await;
        }
    }

    /// On a connection that a neighbour hands over.
    async fn speak_as_handed_over(self, mut stream: UnixStream) {
        match tokio::time::timeout(HANDSHAKE, stream.read_u8()).await {
            Ok(Ok(byte)) if byte == Spoken::Http1 as u8 => self.speak_http1(stream).await,
            Ok(Ok(byte)) if byte == Spoken::Http2 as u8 => self.speak_http2(stream).await,
            _ => tracing::debug!("a neighbour hands over what nobody understands"),
        }
    }

    async fn speak_http1<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(MOST_HEADERS);
        let ending = self.ending.clone();
        let served = builder.serve_connection(TokioIo::new(stream), self).with_upgrades();
        until_ending(Box::pin(served), http1::UpgradeableConnection::graceful_shutdown, ending).await;
    }

    async fn speak_http2<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(1_000)
            .max_header_list_size(LARGEST_HEAD)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(16 << 20);
        let ending = self.ending.clone();
        let served = builder.serve_connection(TokioIo::new(stream), self);
        until_ending(Box::pin(served), http2::Connection::graceful_shutdown, ending).await;
    }
}

impl Service<Request<Incoming>> for Guest {
    type Response = Response<Reply>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Reply>, Infallible>> + Send>>;

    /// The way of a request to its answer takes some kilobytes. They are the request's own and gone when it is answered,
    /// where those of the connection would stay for as long as a watch does.
    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Box::pin(Arc::clone(&self.stack).answer(self.authorities.clone(), request))
    }
}

/// What client and server have agreed on. A neighbour who hands over a connection says so with this byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Http1 = 1,
    Http2 = 2,
}

impl Spoken {
    fn on<S>(stream: &TlsStream<S>) -> Self {
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") { Self::Http2 } else { Self::Http1 }
    }
}

/// Runs a connection to its end. When the proxy is about to end, so is the connection, after the requests it has.
///
/// It comes in a box because there are many of them, and a future that is handed on has a place in each hand.
async fn until_ending<C: Future>(
    mut served: Pin<Box<C>>,
    shut_down: fn(Pin<&mut C>),
    mut ending: watch::Receiver<bool>,
) {
    tokio::select! {
        biased;
        // How it ended is for the client to say.
        _ = served.as_mut() => return,
        _ = ending.wait_for(|ending| *ending) => {}
    }
    shut_down(served.as_mut());
    let _ = served.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_little_room_for_as_long_as_a_watch_lasts() {
        fn plain<A, B, F>(_: fn(A, B) -> F) -> usize {
            size_of::<F>()
        }
        fn with_tls<A, B, C, F>(_: fn(A, B, C) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = (plain(Guest::speak_http1::<UnixStream>), with_tls(Guest::shake_hands::<UnixStream>));
        assert!(bytes.0 <= 512 && bytes.1 <= 1024, "{bytes:?}");
    }
}
