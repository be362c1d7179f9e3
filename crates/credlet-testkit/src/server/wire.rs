//! The TCP stream below TLS, with a count of the bytes sent.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Counts the bytes that the kernel has accepted. Cutting a connection in the middle of a body waits for them, because bytes in
/// a user-space buffer are lost when the connection closes.
pub(super) struct Wire {
    tcp: TcpStream,
    written: Arc<Written>,
}

#[derive(Default)]
pub(super) struct Written(Mutex<(u64, Vec<Waker>)>);

impl Wire {
    pub(super) fn new(tcp: TcpStream, written: Arc<Written>) -> Self {
        Self { tcp, written }
    }
}

impl Written {
    pub(super) fn bytes(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Ready when this many bytes have been sent in total.
    pub(super) fn poll_until(&self, bytes: u64, context: &mut Context<'_>) -> Poll<()> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if written.0 >= bytes {
            return Poll::Ready(());
        }
        written.1.push(context.waker().clone());
        Poll::Pending
    }

    fn add(&self, bytes: usize) {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.0 += bytes as u64;
        written.1.drain(..).for_each(Waker::wake);
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.tcp).poll_write(cx, bytes))?;
        self.written.add(count);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
