use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::ahead::ReadAhead;
use super::body::BodyFailed;
use super::error::chain;
use super::gate::Gate;
use super::route::Wire;
use super::{Error, words};

/// What is known about one connection, for as long as anything depends on it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) host: Arc<str>,
    gate: Gate,
    /// It has answered before, so if it breaks now it has probably been dead since.
    proven: AtomicBool,
    /// How many bytes have gone out, TLS and all.
    written: AtomicU64,
    /// How it ended. HTTP/2 keeps only kind and text of such an error, so it is noted where it first appears.
    fault: OnceLock<Fault>,
    /// Ends this connection alone; the gate ends it with all the others.
    stop: CancellationToken,
    /// Who drives the connection does so with a [`Bell`](super::bell::Bell).
    has_bell: AtomicBool,
    /// The bell has rung since the last read.
    stirred: AtomicBool,
}

#[derive(Debug)]
enum Fault {
    /// The peer's last word, as to why it does not want us.
    Refused(String),
    Broke(String),
}

impl Line {
    pub(super) fn new(host: Arc<str>, gate: Gate) -> Self {
        let stop = gate.stop();
        Self {
            host,
            gate,
            proven: AtomicBool::new(false),
            written: AtomicU64::new(0),
            fault: OnceLock::new(),
            stop,
            has_bell: AtomicBool::new(false),
            stirred: AtomicBool::new(true),
        }
    }

    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Relaxed)
    }

    pub(super) fn prove(&self) {
        // Written once, read by all requests: leave the cache line alone.
        if !self.is_proven() {
            self.proven.store(true, Relaxed);
        }
    }

    /// Grows whenever anything goes out. What was put on the connection, and broke, and has not made it grow, has not been
    /// heard of by anybody.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    pub(super) fn has_bell(&self, has: bool) {
        self.has_bell.store(has, Relaxed);
        // The next read must be heard of by whoever comes now.
        self.stir();
    }

    pub(super) fn stir(&self) {
        self.stirred.store(true, SeqCst);
    }

    /// Whether a read that found nothing would find nothing again.
    fn is_calm(&self) -> bool {
        self.has_bell.load(Relaxed) && !self.stirred.load(SeqCst)
    }

    /// Tells who must act from what the HTTP library says.
    pub(super) fn explain<E: StdError + Send + Sync + 'static>(&self, error: E) -> Error {
        let host = self.host.clone();
        if self.gate.is_cut() {
            return Error::Rotated { host };
        }
        for cause in chain(&error) {
            if let Some(ours) = cause.downcast_ref::<Error>() {
                return ours.clone();
            }
            if let Some(BodyFailed(source)) = cause.downcast_ref() {
                return Error::RequestBody { host, source: source.clone() };
            }
            if let Some(error) = cause.downcast_ref::<h2::Error>()
                && error.is_reset()
                && error.is_remote()
                && let Some(reason) = error.reason()
            {
                return Error::Reset { host, reason: format!("{reason:?}") };
            }
        }
        match self.fault.get() {
            Some(Fault::Refused(reason)) => Error::Handshake { host, reason: reason.clone() },
            Some(Fault::Broke(reason)) => Error::Broken { host, reason: reason.clone(), source: Some(Arc::new(error)) },
            None => Error::Broken { host, reason: reason(&error), source: Some(Arc::new(error)) },
        }
    }

    /// The same for those who had not sent anything yet.
    pub(super) fn explain_end(&self) -> Error {
        let host = self.host.clone();
        match self.fault.get() {
            _ if self.gate.is_cut() => Error::Rotated { host },
            Some(Fault::Refused(reason)) => Error::Handshake { host, reason: reason.clone() },
            Some(Fault::Broke(reason)) => Error::Broken { host, reason: reason.clone(), source: None },
            None => Error::Broken { host, reason: "it was closing".into(), source: None },
        }
    }

    /// Ends the connection, for this reason, whatever is on it. To drop it would not do: the HTTP library keeps it as
    /// long as somebody waits for an answer.
    pub(super) fn give_up(&self, reason: String) {
        self.blame(reason);
        self.stop.cancel();
    }

    fn blame(&self, reason: String) {
        let _ = self.fault.set(Fault::Broke(reason));
    }

    /// Notes how the connection ended, and takes the advertisement out of the library's text.
    fn note(&self, error: io::Error) -> io::Error {
        let (fault, error) = match words::tls(&error) {
            Some(tls @ rustls::Error::AlertReceived(_)) => (Fault::Refused(words::failure(tls)), error),
            Some(tls) => (Fault::Broke(words::failure(tls)), error),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                let reason = "the server closed it without ending TLS";
                (Fault::Broke(reason.into()), io::Error::new(error.kind(), reason))
            }
            None => (Fault::Broke(error.to_string()), error),
        };
        let _ = self.fault.set(fault);
        error
    }
}

/// When the connection itself has said nothing: then it was given up on this side.
fn reason(error: &(dyn StdError + 'static)) -> String {
    for cause in chain(error) {
        if let Some(error) = cause.downcast_ref::<h2::Error>()
            && let Some(reason) = error.reason()
        {
            return match error.is_remote() {
                true => format!("the server shut it down ({reason:?})"),
                false => format!("the server broke the rules of HTTP/2 ({reason:?})"),
            };
        }
        if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            if error.is_parse() {
                return "the server does not speak HTTP".into();
            }
            if error.is_user() || error.is_canceled() {
                return "it was closing".into();
            }
        }
    }
    // A ping without an answer: the library says no more than that the stream is broken.
    "it has gone silent".into()
}

/// One connection. The switch that ends it lies here because everything ends here: HTTP/1.1, HTTP/2, and a stream that
/// was upgraded and has left the HTTP library.
pub(super) struct Io {
    inner: Inner,
    line: Arc<Line>,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Who will be woken then.
    listener: Option<Waker>,
    /// Why it cannot be written to any more, while the server's own word for that is awaited.
    broken: Option<io::Error>,
    patience: Option<Pin<Box<Sleep>>>,
    /// The last read found nothing.
    is_dry: bool,
    _live: TaskTrackerToken,
}

pub(super) enum Inner {
    Plain(Wire),
    Tls(Box<TlsStream<ReadAhead>>),
}

macro_rules! on {
    ($inner:expr, $stream:ident => $call:expr) => {
        match $inner {
            Inner::Plain($stream) => $call,
            Inner::Tls($stream) => $call,
        }
    };
}

impl Io {
    pub(super) fn new(inner: Inner, line: Line) -> Self {
        let cut = Box::pin(line.stop.clone().cancelled_owned());
        let live = line.gate.enter();
        let line = Arc::new(line);
        Self { inner, line, cut, listener: None, broken: None, patience: None, is_dry: false, _live: live }
    }

    pub(super) fn line(&self) -> &Arc<Line> {
        &self.line
    }
}

impl Io {
    /// To ask again for who is listening already would cost more than the rest of a read.
    fn is_cut(&mut self, cx: &mut Context<'_>) -> bool {
        if self.listener.as_ref().is_some_and(|listener| listener.will_wake(cx.waker())) {
            return self.line.stop.is_cancelled();
        }
        self.listener = Some(cx.waker().clone());
        self.cut.as_mut().poll(cx).is_ready()
    }

    /// What comes of writing. If it is an error, the server may have said why it closed before we wrote: that is the one to
    /// keep.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut Inner, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.line.stop.is_cancelled() {
            return Poll::Ready(Err(aborted()));
        }
        let error = match self.broken.take() {
            Some(error) => error,
            None => {
                let written = write(&mut self.inner, cx);
                self.note_written();
                match ready!(written) {
                    Ok(written) => return Poll::Ready(Ok(written)),
                    Err(error) => error,
                }
            }
        };
        match self.last_words(cx) {
            Poll::Ready(said) => Poll::Ready(Err(self.line.note(said.unwrap_or(error)))),
            Poll::Pending => {
                self.broken = Some(error);
                Poll::Pending
            }
        }
    }

    /// What TLS was given may go out later than it is written, and a write that fails may have sent the half.
    fn note_written(&self) {
        if let Inner::Tls(stream) = &self.inner {
            self.line.written.store(stream.get_ref().0.written(), Relaxed);
        }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Inner::Plain(_)) = (&written, &self.inner) {
            self.line.written.fetch_add(*bytes as u64, Relaxed);
        }
        written
    }

    /// They may be on their way to us still when we know already that nobody listens. But one that says nothing is not
    /// waited for for long.
    fn last_words(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Error>> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let mut scratch = [0; 64];
        for _ in 0..16 {
            let mut buffer = ReadBuf::new(&mut scratch);
            match on!(&mut self.inner, stream => Pin::new(stream).poll_read(cx, &mut buffer)) {
                Poll::Ready(Err(said)) if words::tls(&said).is_some() => return Poll::Ready(Some(said)),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Pending if matches!(self.inner, Inner::Tls(_)) => {
                    let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
                    ready!(patience.as_mut().poll(cx));
                    break;
                }
                _ => break,
            }
        }
        Poll::Ready(None)
    }
}

fn aborted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "it was cut on this side")
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A connection always has a read pending, so here the switch is always heard.
        if self.is_cut(cx) {
            return Poll::Ready(Err(aborted()));
        }
        // The HTTP library asks three times where once would do, and it is a long way down to the socket.
        if self.is_dry && self.line.is_calm() {
            return Poll::Pending;
        }
        // First: what happens from here on is for the next read.
        self.line.stirred.store(false, SeqCst);
        let before = buffer.filled().len();
        let read = on!(&mut self.inner, stream => Pin::new(stream).poll_read(cx, buffer));
        self.is_dry = read.is_pending();
        self.note_written();
        let result = ready!(read);
        if result.is_ok() && buffer.filled().len() == before && buffer.remaining() > 0 {
            self.line.blame("the server closed it".into());
        }
        Poll::Ready(result.map_err(|error| self.line.note(error)))
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.written(cx, |inner, cx| on!(inner, stream => Pin::new(stream).poll_write(cx, bytes)));
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written =
            self.written(cx, |inner, cx| on!(inner, stream => Pin::new(stream).poll_write_vectored(cx, slices)));
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.inner {
            Inner::Plain(stream) => stream.is_write_vectored(),
            Inner::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.written(cx, |inner, cx| on!(inner, stream => Pin::new(stream).poll_flush(cx)))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(&mut self.inner, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
