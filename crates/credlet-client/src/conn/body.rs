use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use super::Error;
use super::error::Cause;
use super::http1::Lease;
use super::line::Line;
use super::link::Slot;

type AnyError = Box<dyn StdError + Send + Sync>;
type AnyBody = Pin<Box<dyn HttpBody<Data = Bytes, Error = AnyError> + Send>>;

/// The body of a request: whole, so that it can be sent again, or a stream, which can be sent once.
///
/// ```
/// use credlet_client::conn::Payload;
///
/// let request = http::Request::post("/api/v1/namespaces").body(Payload::from(r#"{"kind":"Namespace"}"#));
/// let request = http::Request::get("/version").body(Payload::empty());
/// ```
pub struct Payload(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Stream(AnyBody),
}

impl Payload {
    /// Nothing.
    pub fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    /// Something that is read while it is sent.
    pub fn stream<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<AnyError>,
    {
        Self(Kind::Stream(Box::pin(Wrapped(Box::pin(body)))))
    }

    /// Another one of the same, if there can be one.
    pub fn try_clone(&self) -> Option<Self> {
        match &self.0 {
            Kind::Whole(bytes) => Some(Self(Kind::Whole(bytes.clone()))),
            Kind::Stream(_) => None,
        }
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Into<Bytes>> From<T> for Payload {
    fn from(bytes: T) -> Self {
        Self(Kind::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty())))
    }
}

/// Its length, if that is known. A body may hold secrets.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Whole(bytes) => write!(f, "Payload({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Kind::Stream(_) => f.write_str("Payload(stream)"),
        }
    }
}

impl HttpBody for Payload {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}

/// Marks the errors of the caller's stream, to tell them from the connection's.
struct Wrapped<B>(Pin<Box<B>>);

impl<B: HttpBody<Data = Bytes>> HttpBody for Wrapped<B>
where
    B::Error: Into<AnyError>,
{
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        let frame = ready!(self.0.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(|error| BodyFailed(Arc::from(error.into())).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// An error of the caller's stream.
#[derive(Debug, thiserror::Error)]
#[error("the request body could not be read")]
pub(super) struct BodyFailed(pub(super) Cause);

/// The body of a response.
///
/// It holds its place on the connection until it ends, fails or is dropped. Dropping it before its end is free on
/// HTTP/2 and closes the connection on HTTP/1.1.
pub struct Body {
    /// `None` after the end: one who keeps the body must not keep the connection.
    rest: Option<Rest>,
    line: Arc<Line>,
}

struct Rest {
    incoming: Incoming,
    place: Option<Place>,
}

impl Rest {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.place {
            Some(Place::Http1(lease)) => lease.poll_frame(&mut self.incoming, cx),
            _ => Pin::new(&mut self.incoming).poll_frame(cx),
        }
    }
}

/// What a body keeps of its connection.
pub(super) enum Place {
    Http1(Lease),
    Http2(#[expect(dead_code, reason = "held for its drop")] Slot),
}

impl Body {
    pub(super) fn new(incoming: Incoming, line: Arc<Line>, place: Option<Place>) -> Self {
        let ended = incoming.is_end_stream();
        let mut body = Self { rest: Some(Rest { incoming, place }), line };
        if ended {
            body.end();
        }
        body
    }

    /// All was read: another request may have the place.
    fn end(&mut self) {
        if let Some(Rest { place: Some(Place::Http1(lease)), .. }) = self.rest.take() {
            lease.give_back();
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body")
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let frame = ready!(rest.poll_frame(cx));
        match &frame {
            Some(Err(_)) => self.rest = None,
            Some(Ok(_)) if !rest.incoming.is_end_stream() => {}
            _ => self.end(),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| self.line.explain(error))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.rest.as_ref().map_or(SizeHint::with_exact(0), |rest| rest.incoming.size_hint())
    }
}
