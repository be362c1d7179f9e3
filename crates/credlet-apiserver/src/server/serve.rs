//! Accepts connections and serves them.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::HandshakeKind;
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::control::{ConnectionCommand, ConnectionGuard, CutMode, SharedState};
use super::counting_stream::{CountingStream, StreamState};
use super::record::PeerCertificate;
use super::request::{Connection, respond};

/// Wait after a failed `accept`, usually because file descriptors ran out, which is temporary.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves until the sender of `stop` is dropped or a request panics, which it propagates. All connections close with it: their tasks
/// belong to the set.
pub(super) async fn serve(listener: TcpListener, shared: Arc<SharedState>, mut stop: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    let mut panicked = shared.panicked.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    let (guard, commands) = shared.register();
                    connections.spawn(serve_connection(tcp, guard, commands));
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
            Some(_) = connections.join_next() => {}
            _ = panicked.changed() => break,
            _ = &mut stop => break,
        }
    }
    connections.shutdown().await;
    if *shared.panicked.borrow() {
        // The panic hook has reported it.
        std::panic::resume_unwind(Box::new("a request panicked"));
    }
}

/// The parameters are dropped last, so that the socket is closed when the connection counts as closed.
async fn serve_connection(
    tcp: TcpStream,
    guard: ConnectionGuard,
    mut commands: mpsc::UnboundedReceiver<ConnectionCommand>,
) {
    // Without TCP_NODELAY a response in two writes waits for the client's delayed ACK.
    let _ = tcp.set_nodelay(true);
    let stream = Arc::new(StreamState::default());
    let shared = &guard.shared;
    let mut deferred = Vec::new();
    let tls = {
        let mut handshake = pin!(handshake(CountingStream::new(tcp, Arc::clone(&stream)), shared));
        tokio::select! {
            tls = &mut handshake => tls,
            // The stream is dropped with the handshake, at the end of this block.
            () = reset_command(&mut commands, &mut deferred) => return stream.reset_on_drop(),
        }
    };
    let Some(tls) = tls else { return };
    for command in deferred {
        let _ = guard.commands.send(command);
    }
    let session = tls.get_ref().1;
    let alpn = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
    let is_http2 = alpn.as_deref() == Some("h2");
    let chain = session.peer_certificates().unwrap_or_default();
    let connection = Arc::new(Connection {
        shared: Arc::clone(shared),
        number: guard.number,
        commands: guard.commands.clone(),
        stream: Arc::clone(&stream),
        alpn,
        resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        peer: chain.first().and_then(|leaf| PeerCertificate::from_der(leaf)),
        chain: chain.iter().map(|certificate| CertificateDer::clone(certificate).into_owned()).collect(),
    });
    let service = service_fn(move |request| respond(Arc::clone(&connection), request));
    if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_concurrent_streams(shared.settings.max_concurrent_streams);
        let served = builder.serve_connection(TokioIo::new(tls), service);
        drive(served, http2::Connection::graceful_shutdown, &mut commands, &stream).await;
    } else {
        let mut builder = http1::Builder::new();
        match shared.settings.handshake_timeout {
            Some(limit) => builder.timer(TokioTimer::new()).header_read_timeout(limit),
            None => builder.header_read_timeout(None),
        };
        let served = builder.serve_connection(TokioIo::new(tls), service).with_upgrades();
        drive(served, http1::UpgradeableConnection::graceful_shutdown, &mut commands, &stream).await;
    }
}

async fn handshake(tcp: CountingStream, shared: &SharedState) -> Option<TlsStream<CountingStream>> {
    let released = shared.holding_handshakes.subscribe().wait_for(|holding| !holding).await.is_ok();
    if !released {
        return None;
    }
    let accept = TlsAcceptor::from(shared.tls()).accept(tcp);
    let tls = match shared.settings.handshake_timeout {
        Some(limit) => tokio::time::timeout(limit, accept).await.ok().and_then(Result::ok),
        None => accept.await.ok(),
    };
    let resumed = tls.as_ref().is_some_and(|tls| tls.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed));
    shared.counts.send_modify(|counts| {
        counts.handshakes += usize::from(tls.is_some());
        counts.resumed_handshakes += usize::from(resumed);
        counts.failed_handshakes += usize::from(tls.is_none());
    });
    tls
}

/// Drives a connection until it completes or is cut. Errors are visible to the client and ignored here. The stream is dropped on
/// return.
async fn drive<C: Future>(
    served: C,
    shut_down: fn(Pin<&mut C>),
    commands: &mut mpsc::UnboundedReceiver<ConnectionCommand>,
    stream: &StreamState,
) {
    let mut served = pin!(served);
    loop {
        tokio::select! {
            _ = served.as_mut() => return,
            Some(command) = commands.recv() => match command {
                ConnectionCommand::GoAway => shut_down(served.as_mut()),
                ConnectionCommand::Cut(cut) => return cut.apply(stream),
            },
        }
    }
}

/// Waits for the command to reset a connection in its handshake. Other commands take effect after the handshake.
async fn reset_command(
    commands: &mut mpsc::UnboundedReceiver<ConnectionCommand>,
    deferred: &mut Vec<ConnectionCommand>,
) {
    loop {
        match commands.recv().await {
            Some(ConnectionCommand::Cut(CutMode::Reset)) => return,
            Some(command) => deferred.push(command),
            None => std::future::pending().await,
        }
    }
}

impl CutMode {
    /// Chooses how the stream is closed when it is dropped next.
    fn apply(self, stream: &StreamState) {
        if self == CutMode::Reset {
            stream.reset_on_drop();
        }
    }
}
