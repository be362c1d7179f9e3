//! Read-ahead below TLS: rustls reads 4 KiB at a time, four or five system calls for each record of a long response.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::route::BoxedStream;

/// Size of a read: a few TLS records.
const BLOCK_SIZE: usize = 64 << 10;

/// A stream that is read in large blocks while data is available. An idle one holds no buffer: there may be hundreds of
/// watches.
pub(super) struct ReadAhead {
    stream: BoxedStream,
    buffer: BytesMut,
    /// The last read filled the buffer.
    more_available: bool,
    written: u64,
}

impl ReadAhead {
    pub(super) fn new(stream: BoxedStream) -> Self {
        Self { stream, buffer: BytesMut::new(), more_available: false, written: 0 }
    }

    /// The number of bytes written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written += bytes as u64;
        }
        written
    }
}

impl AsyncRead for ReadAhead {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.buffer.is_empty() && !this.more_available {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
            this.more_available = buf.remaining() == 0;
            return Poll::Ready(Ok(()));
        }
        if this.buffer.is_empty() {
            this.buffer.reserve(BLOCK_SIZE);
            let capacity = this.buffer.capacity();
            match poll_read_buf(Pin::new(&mut this.stream), cx, &mut this.buffer) {
                Poll::Ready(Ok(count)) => this.more_available = count == capacity,
                other => {
                    // Nothing available: free the buffer, the wait may be long.
                    (this.buffer, this.more_available) = (BytesMut::new(), false);
                    return other.map_ok(drop);
                }
            }
        }
        let count = buf.remaining().min(this.buffer.len());
        buf.put_slice(&this.buffer[..count]);
        this.buffer.advance(count);
        if this.buffer.is_empty() && !this.more_available {
            this.buffer = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReadAhead {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.count(written)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn delivers_all_bytes_and_frees_the_buffer_when_idle() {
        let (ours, mut theirs) = tokio::io::duplex(200_000);
        let mut stream = ReadAhead::new(Box::new(ours));
        // Less than, exactly and more than the requested size and the block size, with idle times in between.
        for len in [1, 4095, 4096, 4097, 65_536, 65_537, 150_000, 10] {
            let sent: Vec<u8> = (0..len).map(|n: u32| (n % 251) as u8).collect();
            theirs.write_all(&sent).await.unwrap();
            let mut back = Vec::new();
            let mut piece = [0; 4096];
            while back.len() < sent.len() {
                let count = stream.read(&mut piece).await.unwrap();
                back.extend_from_slice(&piece[..count]);
            }
            assert!(back == sent, "{len}");
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let mut nothing = ReadBuf::new(&mut piece);
            assert!(Pin::new(&mut stream).poll_read(&mut cx, &mut nothing).is_pending());
            assert_eq!(stream.buffer.capacity(), 0, "{len}");
        }
        drop(theirs);
        assert_eq!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn reports_eof_after_a_full_read() {
        let (ours, mut theirs) = tokio::io::duplex(8192);
        let mut stream = ReadAhead::new(Box::new(ours));
        theirs.write_all(&[7; 4096]).await.unwrap();
        drop(theirs);
        let mut piece = [0; 4096];
        assert_eq!(stream.read(&mut piece).await.unwrap(), 4096);
        assert_eq!(stream.read(&mut piece).await.unwrap(), 0);
    }
}
