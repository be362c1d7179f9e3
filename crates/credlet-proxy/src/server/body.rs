//! The body of a request on its way to the signer and the API server.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::{Bytes, BytesMut};
use credlet_client::conn::Payload;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};

use super::rescue::Trouble;
use crate::sign::{BodyDigest, BodyRule};

/// Reads as much of the body as the rule asks for, and hands on the whole.
pub(super) async fn prepare<B>(rule: BodyRule, head: &HeaderMap, body: B) -> Result<(Payload, BodyDigest), Trouble>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        // Known to be nothing, it can be sent again.
        return Ok((Payload::empty(), known(rule, &[])));
    }
    let (max, or_refuse) = match rule {
        BodyRule::Stream => return Ok((Payload::stream(body), BodyDigest::Unknown)),
        BodyRule::Hash { max } => (max, true),
        BodyRule::HashUpTo { max } => (max, false),
    };
    let announced = head.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|announced| announced > max as u64) {
        // It need not be read to know.
        return if or_refuse { Err(Trouble::too_large(max)) } else { Ok((Payload::stream(body), BodyDigest::Unknown)) };
    }
    read(body, max, or_refuse).await
}

async fn read<B>(mut body: B, max: usize, or_refuse: bool) -> Result<(Payload, BodyDigest), Trouble>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut data = BytesMut::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| Trouble::unreadable())?;
        match frame.into_data() {
            Ok(piece) => data.extend_from_slice(&piece),
            Err(trailers) => {
                // What follows a body is no part of its digest, and goes on as it is.
                let hash = sha256(&data);
                let first = VecDeque::from([Frame::data(data.freeze()), trailers]);
                return Ok((Payload::stream(Resumed { first, rest: body }), hash));
            }
        }
        if data.len() > max {
            if or_refuse {
                return Err(Trouble::too_large(max));
            }
            let first = VecDeque::from([Frame::data(data.freeze())]);
            return Ok((Payload::stream(Resumed { first, rest: body }), BodyDigest::Unknown));
        }
    }
    let hash = sha256(&data);
    Ok((Payload::from(data.freeze()), hash))
}

fn known(rule: BodyRule, data: &[u8]) -> BodyDigest {
    match rule {
        BodyRule::Stream => BodyDigest::Unknown,
        _ => sha256(data),
    }
}

fn sha256(data: &[u8]) -> BodyDigest {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, data).as_ref());
    BodyDigest::Sha256(hash)
}

/// What was read of a body, and then the rest.
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
