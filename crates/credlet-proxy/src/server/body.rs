//! Buffering and hashing of request bodies.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::{Bytes, BytesMut};
use credlet_http::RequestBody;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};

use super::error_response::ProxyError;
use crate::sign::{BodyDigest, BodyDigestRule};

/// Reads as much of the body as the rule requires, and returns a payload with the whole body.
pub(super) async fn prepare<B>(
    rule: BodyDigestRule,
    head: &HeaderMap,
    body: B,
) -> Result<(RequestBody, BodyDigest), ProxyError>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        // An empty body can be sent again on a retry.
        return Ok((RequestBody::empty(), known(rule, &[])));
    }
    let (max, or_refuse) = match rule {
        BodyDigestRule::Stream => return Ok((RequestBody::stream(body), BodyDigest::Unknown)),
        BodyDigestRule::Hash { max } => (max, true),
        BodyDigestRule::HashUpTo { max } => (max, false),
    };
    let announced = head.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|announced| announced > max as u64) {
        // Check the declared length before reading.
        return if or_refuse {
            Err(ProxyError::too_large(max))
        } else {
            Ok((RequestBody::stream(body), BodyDigest::Unknown))
        };
    }
    read(body, max, or_refuse).await
}

async fn read<B>(mut body: B, max: usize, or_refuse: bool) -> Result<(RequestBody, BodyDigest), ProxyError>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut data = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| ProxyError::body_aborted())?;
        match frame.into_data() {
            Ok(piece) => data.extend_from_slice(&piece),
            Err(trailers) => {
                // Trailers are not part of the digest and are forwarded unchanged.
                let hash = sha256(&data);
                let first = VecDeque::from([Frame::data(data.freeze()), trailers]);
                return Ok((RequestBody::stream(Resumed { first, rest: body }), hash));
            }
        }
        if data.len() > max {
            if or_refuse {
                return Err(ProxyError::too_large(max));
            }
            let first = VecDeque::from([Frame::data(data.freeze())]);
            return Ok((RequestBody::stream(Resumed { first, rest: body }), BodyDigest::Unknown));
        }
    }
    let hash = sha256(&data);
    Ok((RequestBody::from(data.freeze()), hash))
}

fn known(rule: BodyDigestRule, data: &[u8]) -> BodyDigest {
    match rule {
        BodyDigestRule::Stream => BodyDigest::Unknown,
        _ => sha256(data),
    }
}

fn sha256(data: &[u8]) -> BodyDigest {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, data).as_ref());
    BodyDigest::Sha256(hash)
}

/// The part of a body that was read, followed by the rest.
struct Resumed<B> {
    first: VecDeque<Frame<Bytes>>,
    rest: B,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Resumed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.first.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read: u64 = self.first.iter().filter_map(|frame| Some(frame.data_ref()?.len() as u64)).sum();
        match self.rest.size_hint().exact() {
            Some(rest) => SizeHint::with_exact(read + rest),
            None => SizeHint::default(),
        }
    }
}
