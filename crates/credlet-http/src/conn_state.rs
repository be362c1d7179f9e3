use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::body::BodyStreamError;
use super::connection_group::ConnectionGroup;
use super::error::chain;
use super::read_ahead::ReadAhead;
use super::route::BoxedStream;
use super::{HttpError, tls_error};

/// State of one connection, shared by its I/O half, its driver and its response bodies.
#[derive(Debug)]
pub(super) struct ConnState {
    pub(super) host: Arc<str>,
    group: ConnectionGroup,
    /// The peer has responded on this connection. A later failure probably means that the connection was dead already.
    proven: AtomicBool,
    /// Bytes written to the transport, including TLS records.
    written: AtomicU64,
    /// First failure. h2 keeps only kind and text of an I/O error, so the failure is recorded where it occurs.
    fault: OnceLock<ConnectionFault>,
    /// Closes this connection. It is also canceled with the whole group.
    close: CancellationToken,
}

#[derive(Debug)]
enum ConnectionFault {
    /// The peer sent a TLS alert.
    Alert(String),
    Lost(String),
}

impl ConnState {
    pub(super) fn new(host: Arc<str>, group: ConnectionGroup) -> Self {
        let close = group.child_token();
        Self { host, group, proven: AtomicBool::new(false), written: AtomicU64::new(0), fault: OnceLock::new(), close }
    }

    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Relaxed)
    }

    pub(super) fn set_proven(&self) {
        // Written once, read by all requests: avoids invalidating the cache line.
        if !self.is_proven() {
            self.proven.store(true, Relaxed);
        }
    }

    /// The number of bytes written. If a request fails and the number has not changed since the request was put on
    /// the connection, the peer has received nothing of it.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Converts an error of the HTTP library, using the recorded failure of the connection.
    pub(super) fn classify<E: StdError + Send + Sync + 'static>(&self, error: E) -> HttpError {
        let host = self.host.clone();
        if self.group.is_closed() {
            return HttpError::CredentialRotated { host };
        }
        for cause in chain(&error) {
            if let Some(ours) = cause.downcast_ref::<HttpError>() {
                return ours.clone();
            }
            if let Some(BodyStreamError(source)) = cause.downcast_ref() {
                return HttpError::RequestBody { host, source: source.clone() };
            }
            if let Some(error) = cause.downcast_ref::<h2::Error>()
                && error.is_reset()
                && error.is_remote()
                && let Some(reason) = error.reason()
            {
                return HttpError::Reset { host, reason: format!("{reason:?}") };
            }
        }
        match self.fault.get() {
            Some(ConnectionFault::Alert(reason)) => HttpError::Handshake { host, reason: reason.clone() },
            Some(ConnectionFault::Lost(reason)) => {
                HttpError::ConnectionLost { host, reason: reason.clone(), source: Some(Arc::new(error)) }
            }
            None => HttpError::ConnectionLost { host, reason: reason(&error), source: Some(Arc::new(error)) },
        }
    }

    /// Returns the error for a request that was not put on the connection before it closed.
    pub(super) fn closed_error(&self) -> HttpError {
        let host = self.host.clone();
        match self.fault.get() {
            _ if self.group.is_closed() => HttpError::CredentialRotated { host },
            Some(ConnectionFault::Alert(reason)) => HttpError::Handshake { host, reason: reason.clone() },
            Some(ConnectionFault::Lost(reason)) => {
                HttpError::ConnectionLost { host, reason: reason.clone(), source: None }
            }
            None => HttpError::ConnectionLost { host, reason: CLOSING.into(), source: None },
        }
    }

    /// Closes the connection and all requests on it. Dropping the connection is not enough: the HTTP library keeps it open
    /// while a response is awaited.
    pub(super) fn close(&self, reason: String) {
        self.record_loss(reason);
        self.close.cancel();
    }

    fn record_loss(&self, reason: String) {
        let _ = self.fault.set(ConnectionFault::Lost(reason));
    }

    /// Records the first failure of the connection. Replaces rustls's text for a missing close_notify, which links to its
    /// documentation.
    fn record(&self, error: io::Error) -> io::Error {
        let (fault, error) = match tls_error::rustls_error(&error) {
            Some(tls @ rustls::Error::AlertReceived(_)) => {
                (ConnectionFault::Alert(tls_error::tls_error_reason(tls)), error)
            }
            Some(tls) => (ConnectionFault::Lost(tls_error::tls_error_reason(tls)), error),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                let reason = "closed by the server without close_notify";
                (ConnectionFault::Lost(reason.into()), io::Error::new(error.kind(), reason))
            }
            None => (ConnectionFault::Lost(error.to_string()), error),
        };
        let _ = self.fault.set(fault);
        error
    }
}

const CLOSING: &str = "already closed or closing";

/// Describes an error of the HTTP library when the connection itself recorded no failure.
fn reason(error: &(dyn StdError + 'static)) -> String {
    for cause in chain(error) {
        if let Some(error) = cause.downcast_ref::<h2::Error>()
            && let Some(reason) = error.reason()
        {
            return match error.is_remote() {
                true => format!("closed by the server with GOAWAY ({reason:?})"),
                false => format!("invalid HTTP/2 from the server ({reason:?})"),
            };
        }
        if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            if error.is_parse() {
                return "invalid HTTP response".into();
            }
            if error.is_user() || error.is_canceled() {
                return CLOSING.into();
            }
        }
    }
    // hyper reports a keep-alive timeout only as a broken stream.
    "keep-alive ping timed out".into()
}

/// I/O half of one connection. Cancellation is checked here because all protocols use it: HTTP/1.1, HTTP/2, and an
/// upgraded stream that has left the HTTP library.
pub(super) struct ConnIo {
    transport: Transport,
    state: Arc<ConnState>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Waker that is registered with `closed`.
    registered: Option<Waker>,
    /// Write error that is returned after the wait for the server's TLS alert.
    write_error: Option<io::Error>,
    alert_timeout: Option<Pin<Box<Sleep>>>,
    _registration: TaskTrackerToken,
}

pub(super) enum Transport {
    Plain(BoxedStream),
    Tls(Box<TlsStream<ReadAhead>>),
}

macro_rules! with_stream {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport {
            Transport::Plain($stream) => $call,
            Transport::Tls($stream) => $call,
        }
    };
}

impl ConnIo {
    pub(super) fn new(transport: Transport, state: ConnState) -> Self {
        let closed = Box::pin(state.close.clone().cancelled_owned());
        let registration = state.group.register();
        Self {
            transport,
            state: Arc::new(state),
            closed,
            registered: None,
            write_error: None,
            alert_timeout: None,
            _registration: registration,
        }
    }

    pub(super) fn state(&self) -> &Arc<ConnState> {
        &self.state
    }

    /// Whether the connection was closed on this side. Skips a registration that is still current, which would cost
    /// more than the rest of a read.
    fn poll_is_closed(&mut self, cx: &mut Context<'_>) -> bool {
        if self.registered.as_ref().is_some_and(|registered| registered.will_wake(cx.waker())) {
            return self.state.close.is_cancelled();
        }
        self.registered = Some(cx.waker().clone());
        self.closed.as_mut().poll(cx).is_ready()
    }

    /// Performs a write. If it fails, reads the alert that the server may have sent before it closed: that error has the
    /// cause.
    fn poll_write_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut Transport, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.state.close.is_cancelled() {
            return Poll::Ready(Err(aborted()));
        }
        let error = match self.write_error.take() {
            Some(error) => error,
            None => {
                let written = write(&mut self.transport, cx);
                self.update_written();
                match ready!(written) {
                    Ok(written) => return Poll::Ready(Ok(written)),
                    Err(error) => error,
                }
            }
        };
        match self.poll_alert(cx) {
            Poll::Ready(alert) => Poll::Ready(Err(self.state.record(alert.unwrap_or(error)))),
            Poll::Pending => {
                self.write_error = Some(error);
                Poll::Pending
            }
        }
    }

    /// Updates the byte count below TLS: TLS may send data later than it accepts it, and a failed write may have sent a
    /// part.
    fn update_written(&self) {
        if let Transport::Tls(stream) = &self.transport {
            self.state.written.store(stream.get_ref().0.written(), Relaxed);
        }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Transport::Plain(_)) = (&written, &self.transport) {
            self.state.written.fetch_add(*bytes as u64, Relaxed);
        }
        written
    }

    /// Reads the server's TLS alert after a failed write. It may arrive later than the reset, so this waits for a short
    /// time.
    fn poll_alert(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Error>> {
        const ALERT_TIMEOUT: Duration = Duration::from_secs(5);
        let mut scratch = [0; 64];
        for _ in 0..16 {
            let mut buffer = ReadBuf::new(&mut scratch);
            match with_stream!(&mut self.transport, stream => Pin::new(stream).poll_read(cx, &mut buffer)) {
                Poll::Ready(Err(alert)) if tls_error::rustls_error(&alert).is_some() => {
                    return Poll::Ready(Some(alert));
                }
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Pending if matches!(self.transport, Transport::Tls(_)) => {
                    let timeout = self.alert_timeout.get_or_insert_with(|| Box::pin(tokio::time::sleep(ALERT_TIMEOUT)));
                    ready!(timeout.as_mut().poll(cx));
                    break;
                }
                _ => break,
            }
        }
        Poll::Ready(None)
    }
}

fn aborted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "closed on this side")
}

impl AsyncRead for ConnIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A connection always has a pending read, so this check always notices the cancellation.
        if self.poll_is_closed(cx) {
            return Poll::Ready(Err(aborted()));
        }
        let before = buffer.filled().len();
        let read = with_stream!(&mut self.transport, stream => Pin::new(stream).poll_read(cx, buffer));
        self.update_written();
        let result = ready!(read);
        if result.is_ok() && buffer.filled().len() == before && buffer.remaining() > 0 {
            self.state.record_loss("closed by the server".into());
        }
        Poll::Ready(result.map_err(|error| self.state.record(error)))
    }
}

impl AsyncWrite for ConnIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.poll_write_with(
            cx,
            |transport, cx| with_stream!(transport, stream => Pin::new(stream).poll_write(cx, bytes)),
        );
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.poll_write_with(
            cx,
            |transport, cx| with_stream!(transport, stream => Pin::new(stream).poll_write_vectored(cx, slices)),
        );
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_with(cx, |transport, cx| with_stream!(transport, stream => Pin::new(stream).poll_flush(cx)))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_stream!(&mut self.transport, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
