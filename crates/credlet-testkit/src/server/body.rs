//! Response bodies: complete, streamed or truncated.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;
use tokio::time::{Interval, interval};

use super::control::{Command, Cut};
use super::wire::Written;

/// A type-erased response body.
pub type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

pub(super) fn whole(bytes: impl Into<Bytes>) -> AnyBody {
    Full::new(bytes.into()).boxed_unsync()
}

/// A body of one JSON line per tick, the first one at once.
pub(super) struct Events {
    ticks: Interval,
    sent: usize,
    count: Option<usize>,
}

impl Events {
    pub(super) fn every(time: Duration, count: Option<usize>) -> AnyBody {
        // tokio rejects an interval of zero.
        Self { ticks: interval(time.max(Duration::from_micros(1))), sent: 0, count }.boxed_unsync()
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.count.is_some_and(|count| self.sent >= count) {
            return Poll::Ready(None);
        }
        ready!(self.ticks.poll_tick(cx));
        self.sent += 1;
        let object = serde_json::json!({
            "kind": "Namespace", "apiVersion": "v1",
            "metadata": { "name": "default", "resourceVersion": self.sent.to_string() },
        });
        let line = format!("{}\n", serde_json::json!({ "type": "MODIFIED", "object": object }));
        Poll::Ready(Some(Ok(Frame::data(line.into()))))
    }
}

/// A body that sends half of its announced length, then closes the connection.
pub(super) struct Half {
    sent: bool,
    written: Arc<Written>,
    enough: u64,
    commands: mpsc::UnboundedSender<Command>,
}

impl Half {
    /// Fits into an HTTP/2 flow-control window.
    const LENGTH: usize = 16 * 1024;

    /// The announced `Content-Length`.
    pub(super) const PROMISED: usize = 2 * Self::LENGTH;

    pub(super) fn then_close(written: Arc<Written>, commands: mpsc::UnboundedSender<Command>) -> AnyBody {
        let enough = written.bytes() + Self::LENGTH as u64;
        Self { sent: false, written, enough, commands }.boxed_unsync()
    }
}

impl Body for Half {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.sent {
            self.sent = true;
            return Poll::Ready(Some(Ok(Frame::data(vec![b'x'; Self::LENGTH].into()))));
        }
        ready!(self.written.poll_until(self.enough, cx));
        let _ = self.commands.send(Command::Cut(Cut::Close));
        Poll::Pending
    }
}
