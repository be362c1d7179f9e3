//! Reading ahead of TLS, which asks for 4 KiB at a time: four or five system calls for each record of a long answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use super::route::Wire;

/// As much as a system call is worth; a few records.
const BLOCK: usize = 64 << 10;

/// A connection that is read in large blocks as long as there is much to read. At rest it holds no memory: there may be
/// hundreds of watches.
pub(super) struct ReadAhead {
    wire: Wire,
    read: BytesMut,
    /// Whether the last read brought as much as it could.
    busy: bool,
    written: u64,
}

impl ReadAhead {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, read: BytesMut::new(), busy: false, written: 0 }
    }

    /// How many bytes have gone out.
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
        if this.read.is_empty() && !this.busy {
            ready!(Pin::new(&mut this.wire).poll_read(cx, buf))?;
            this.busy = buf.remaining() == 0;
            return Poll::Ready(Ok(()));
        }
        if this.read.is_empty() {
            this.read.reserve(BLOCK);
            let room = this.read.capacity();
            match poll_read_buf(Pin::new(&mut this.wire), cx, &mut this.read) {
                Poll::Ready(Ok(count)) => this.busy = count == room,
                other => {
                    // There was no more. Who waits now may wait for long.
                    (this.read, this.busy) = (BytesMut::new(), false);
                    return other.map_ok(drop);
                }
            }
        }
        let count = buf.remaining().min(this.read.len());
        buf.put_slice(&this.read[..count]);
        this.read.advance(count);
        if this.read.is_empty() && !this.busy {
            this.read = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReadAhead {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write(cx, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write_vectored(cx, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn every_byte_arrives_once_and_in_order_and_at_rest_nothing_is_held() {
        let (ours, mut theirs) = tokio::io::duplex(200_000);
        let mut stream = ReadAhead::new(Box::new(ours));
        // Nothing, little, exactly what is asked for, more than a block; and again after a rest.
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
            assert_eq!(stream.read.capacity(), 0, "{len}");
        }
        drop(theirs);
        assert_eq!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn an_end_right_behind_a_full_read_is_an_end() {
        let (ours, mut theirs) = tokio::io::duplex(8192);
        let mut stream = ReadAhead::new(Box::new(ours));
        theirs.write_all(&[7; 4096]).await.unwrap();
        drop(theirs);
        let mut piece = [0; 4096];
        assert_eq!(stream.read(&mut piece).await.unwrap(), 4096);
        assert_eq!(stream.read(&mut piece).await.unwrap(), 0);
    }
}
