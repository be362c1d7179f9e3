use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use zeroize::Zeroizing;

use super::HttpError;
use super::conn_state::ConnState;
use super::error::SharedError;
use super::h2_connection::StreamSlot;
use super::http1::Http1Lease;

type BoxedError = Box<dyn StdError + Send + Sync>;
type BoxedBody = Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxedError> + Send>>;

/// Body of a request: bytes, which can be sent again in a retry, or a stream, which cannot.
///
/// ```
/// use credlet_http::RequestBody;
///
/// let request = http::Request::post("/api/v1/namespaces").body(RequestBody::from(r#"{"kind":"Namespace"}"#));
/// let request = http::Request::get("/version").body(RequestBody::empty());
/// ```
pub struct RequestBody(BodyKind);

enum BodyKind {
    Bytes(Option<Bytes>),
    Stream(BoxedBody),
}

impl RequestBody {
    /// Returns an empty body.
    pub fn empty() -> Self {
        Self(BodyKind::Bytes(None))
    }

    /// Returns a body that is read while it is sent. The request cannot be retried.
    pub fn stream<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxedError>,
    {
        Self(BodyKind::Stream(Box::pin(MarkErrors(Box::pin(body)))))
    }

    /// Clones the body. Returns `None` for a stream.
    pub fn try_clone(&self) -> Option<Self> {
        match &self.0 {
            BodyKind::Bytes(bytes) => Some(Self(BodyKind::Bytes(bytes.clone()))),
            BodyKind::Stream(_) => None,
        }
    }
}

impl Default for RequestBody {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Into<Bytes>> From<T> for RequestBody {
    fn from(bytes: T) -> Self {
        Self(BodyKind::Bytes(Some(bytes.into()).filter(|bytes| !bytes.is_empty())))
    }
}

/// Shows only the length: a body may hold secrets.
impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BodyKind::Bytes(bytes) => write!(f, "RequestBody({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            BodyKind::Stream(_) => f.write_str("RequestBody(stream)"),
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BoxedError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxedError>>> {
        match &mut self.0 {
            BodyKind::Bytes(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Bytes(bytes) => bytes.is_none(),
            BodyKind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Bytes(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            BodyKind::Stream(body) => body.size_hint(),
        }
    }
}

/// Marks errors of the caller's stream with [`BodyStreamError`], to tell them from errors of the connection.
struct MarkErrors<B>(Pin<Box<B>>);

impl<B: HttpBody<Data = Bytes>> HttpBody for MarkErrors<B>
where
    B::Error: Into<BoxedError>,
{
    type Data = Bytes;
    type Error = BoxedError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxedError>>> {
        let frame = ready!(self.0.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(|error| BodyStreamError(Arc::from(error.into())).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// Error of the caller's stream.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the request body")]
pub(super) struct BodyStreamError(pub(super) SharedError);

/// Body of a response.
///
/// It occupies its stream (HTTP/2) or connection (HTTP/1.1) until it is read completely, fails or is dropped. Dropping an
/// unread body resets the stream on HTTP/2 and closes the connection on HTTP/1.1.
pub struct ResponseBody {
    /// `None` after the last frame: a body that is kept must not occupy the connection.
    unread: Option<UnreadBody>,
    state: Arc<ConnState>,
}

struct UnreadBody {
    incoming: Incoming,
    lease: Option<ConnectionLease>,
}

impl UnreadBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.lease {
            Some(ConnectionLease::Http1(lease)) => lease.poll_frame(&mut self.incoming, cx),
            _ => Pin::new(&mut self.incoming).poll_frame(cx),
        }
    }
}

/// Share of a connection that a body occupies.
pub(super) enum ConnectionLease {
    Http1(Http1Lease),
    Http2(#[expect(dead_code, reason = "held for its drop")] StreamSlot),
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, state: Arc<ConnState>, lease: Option<ConnectionLease>) -> Self {
        let complete = incoming.is_end_stream();
        let mut body = Self { unread: Some(UnreadBody { incoming, lease }), state };
        if complete {
            body.release();
        }
        body
    }

    /// Releases the connection for the next request, after the last frame.
    fn release(&mut self) {
        if let Some(UnreadBody { lease: Some(ConnectionLease::Http1(lease)), .. }) = self.unread.take() {
            lease.release();
        }
    }
}

/// Reads a body completely. It is zeroized on drop because it may hold a secret. Trailers are skipped.
///
/// # Errors
/// [`ReadBodyError::TooLarge`] after `limit` bytes; the rest is not read.
pub async fn read_body<B>(mut body: B, limit: usize) -> Result<Zeroizing<Vec<u8>>, ReadBodyError<B::Error>>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    // A buffer that grows leaves copies in freed memory.
    let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let mut bytes = Zeroizing::new(Vec::with_capacity(length.unwrap_or(8 << 10).min(limit)));
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame.map_err(ReadBodyError::Body)?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(ReadBodyError::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Error of [`read_body`].
#[derive(Debug, thiserror::Error)]
pub enum ReadBodyError<E> {
    /// The body ended with an error.
    #[error("failed to read the body")]
    Body(#[source] E),
    /// The body is larger than the limit.
    #[error("body too large")]
    TooLarge,
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseBody")
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let Some(unread) = &mut self.unread else { return Poll::Ready(None) };
        let frame = ready!(unread.poll_frame(cx));
        match &frame {
            Some(Err(_)) => self.unread = None,
            Some(Ok(_)) if !unread.incoming.is_end_stream() => {}
            _ => self.release(),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| self.state.classify(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.unread.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.unread.as_ref().map_or(SizeHint::with_exact(0), |unread| unread.incoming.size_hint())
    }
}
