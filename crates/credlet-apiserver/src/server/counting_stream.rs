//! The TCP stream below TLS, with a count of the bytes sent and a choice of how it is closed.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP stream whose [`StreamState`] outlives the layers above it.
pub(super) struct CountingStream {
    tcp: TcpStream,
    state: Arc<StreamState>,
}

/// Shared with the tasks of the connection, which have no access to the stream itself once TLS owns it.
#[derive(Default)]
pub(super) struct StreamState {
    written: Mutex<(u64, Vec<Waker>)>,
    reset: AtomicBool,
}

impl CountingStream {
    pub(super) fn new(tcp: TcpStream, state: Arc<StreamState>) -> Self {
        Self { tcp, state }
    }
}

impl Drop for CountingStream {
    fn drop(&mut self) {
        if self.state.reset.load(Ordering::Acquire) {
            // With a linger time of zero, close discards unsent data and sends a RST.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl StreamState {
    /// Closes the stream with a TCP reset when it is dropped.
    pub(super) fn reset_on_drop(&self) {
        self.reset.store(true, Ordering::Release);
    }

    /// Returns the number of bytes that the kernel has accepted. Cutting a connection in the middle of a body waits for them,
    /// because bytes in a user-space buffer are lost when the connection closes.
    pub(super) fn bytes_written(&self) -> u64 {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Ready when this many bytes have been sent in total.
    pub(super) fn poll_written(&self, bytes: u64, context: &mut Context<'_>) -> Poll<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.0 >= bytes {
            return Poll::Ready(());
        }
        written.1.push(context.waker().clone());
        Poll::Pending
    }

    fn add(&self, bytes: usize) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.0 += bytes as u64;
        written.1.drain(..).for_each(Waker::wake);
    }
}

impl AsyncRead for CountingStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.tcp).poll_write(cx, bytes))?;
        self.state.add(count);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
