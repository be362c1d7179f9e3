//! Accepts connections and serves them.

use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::net::sockopt::set_socket_linger;
use rustls::HandshakeKind;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::answer::{Connection, answer};
use super::control::{Command, Cut, Membership, Shared};
use super::seen::TlsPeer;
use super::wire::{Wire, Written};

/// Serves until the sender of `stop` is dropped. All connections close with it: their tasks belong to the set.
pub(super) async fn until_told(listener: std::net::TcpListener, shared: Arc<Shared>, mut stop: oneshot::Receiver<()>) {
    let listener = TcpListener::from_std(listener).expect("a listener for tokio");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // The connection was closed before it was accepted.
                if let Ok((tcp, _)) = accepted {
                    let (membership, commands) = shared.join();
                    connections.spawn(connection(tcp, membership, commands));
                }
            }
            Some(ended) = connections.join_next() => ended.expect("a connection not to panic"),
            _ = &mut stop => break,
        }
    }
    connections.shutdown().await;
}

/// The parameters are dropped last, so that the socket is closed when the connection counts as closed.
async fn connection(tcp: TcpStream, membership: Membership, mut commands: mpsc::UnboundedReceiver<Command>) {
    // Without TCP_NODELAY a response in two writes waits for the client's delayed ACK.
    let _ = tcp.set_nodelay(true);
    // A second handle on the socket, to choose how it is closed after TLS has dropped the first one.
    let socket = tcp.as_fd().try_clone_to_owned().expect("a second handle");
    let written = Arc::new(Written::default());
    let wire = Wire::new(tcp, Arc::clone(&written));
    let shared = &membership.shared;

    let tls = tokio::select! {
        tls = handshake(wire, shared) => tls,
        cut = told_to_cut(&mut commands) => return cut.apply(&socket),
    };
    let Some(tls) = tls else { return };
    let session = tls.get_ref().1;
    let alpn = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
    let http2 = alpn.as_deref() == Some("h2");
    let connection = Arc::new(Connection {
        shared: Arc::clone(shared),
        number: membership.number,
        commands: membership.commands.clone(),
        written,
        alpn,
        resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        peer: session.peer_certificates().and_then(|chain| chain.first()).map(|leaf| TlsPeer::of(leaf)),
    });
    let service = service_fn(move |request| answer(Arc::clone(&connection), request));
    let cut = if http2 {
        let builder = {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).max_concurrent_streams(shared.max_concurrent_streams);
            builder
        };
        let served = builder.serve_connection(TokioIo::new(tls), service);
        drive(served, http2::Connection::graceful_shutdown, &mut commands).await
    } else {
        let served = http1::Builder::new().serve_connection(TokioIo::new(tls), service).with_upgrades();
        drive(served, http1::UpgradeableConnection::graceful_shutdown, &mut commands).await
    };
    if let Some(cut) = cut {
        cut.apply(&socket);
    }
}

async fn handshake(wire: Wire, shared: &Shared) -> Option<TlsStream<Wire>> {
    let released = shared.hanging.subscribe().wait_for(|hanging| !hanging).await.is_ok();
    if !released {
        return None;
    }
    let tls = TlsAcceptor::from(shared.tls()).accept(wire).await;
    let resumed = tls.as_ref().is_ok_and(|tls| tls.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed));
    shared.counts.send_modify(|counts| {
        counts.handshakes += usize::from(tls.is_ok());
        counts.resumed_handshakes += usize::from(resumed);
        counts.failed_handshakes += usize::from(tls.is_err());
    });
    tls.ok()
}

/// Returns how the connection was cut, or `None` if it completed. Errors are visible to the client and ignored here.
async fn drive<C: Future>(
    served: C,
    shut_down: fn(Pin<&mut C>),
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> Option<Cut> {
    let mut served = pin!(served);
    loop {
        tokio::select! {
            _ = served.as_mut() => return None,
            Some(command) = commands.recv() => match command {
                Command::GoAway => shut_down(served.as_mut()),
                Command::Cut(cut) => return Some(cut),
            },
        }
    }
}

async fn told_to_cut(commands: &mut mpsc::UnboundedReceiver<Command>) -> Cut {
    loop {
        match commands.recv().await {
            Some(Command::Cut(cut)) => return cut,
            // There is no HTTP connection to shut down gracefully yet.
            Some(Command::GoAway) => {}
            None => std::future::pending().await,
        }
    }
}

impl Cut {
    /// Closes the socket with a TCP reset. Must be the last handle.
    fn apply(self, socket: &OwnedFd) {
        if self == Cut::Reset {
            // With a linger time of zero, close discards unsent data and sends a RST.
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
        }
    }
}
