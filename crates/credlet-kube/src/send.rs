//! Between kube's bodies and ours, and the limit of the server's silence.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use credlet_client::Client;
use credlet_client::conn::{self, Payload};
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use tokio::time::Sleep;
use tower::{BoxError, Service};

/// Sends kube's requests over our connections.
#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub(crate) client: Client,
    pub(crate) limit: Option<Duration>,
}

impl Service<Request<Body>> for Send {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, BoxError>> + std::marker::Send>>;

    /// Always: limits are the server's, and are kept by the pool.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, limit } = self.clone();
        Box::pin(async move {
            let request = request.map(payload);
            let response = match limit {
                None => client.send(request).await?,
                Some(limit) => {
                    if !request.headers().contains_key(AUTHORIZATION) {
                        client.ready().await?;
                    }
                    let answered = tokio::time::timeout(limit, client.send(request)).await;
                    answered.map_err(|_| Silent { limit })??
                }
            };
            Ok(response.map(|body| Answer { body, limit, patience: None }))
        })
    }
}

/// A whole body stays whole, so that it can be sent again.
fn payload(mut body: Body) -> Payload {
    if body.try_clone().is_none() {
        return Payload::stream(body);
    }
    // It is there, all of it, and nobody has to be woken.
    match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().map_or_else(|_| Payload::empty(), Payload::from),
        _ => Payload::empty(),
    }
}

/// The server said nothing for too long.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the server was silent for {} seconds", limit.as_secs_f32())]
pub struct Silent {
    /// [`Options::read_timeout`](crate::Options::read_timeout).
    pub limit: Duration,
}

/// The body of an answer, which must not be silent for longer than the limit.
pub(crate) struct Answer {
    body: conn::Body,
    limit: Option<Duration>,
    /// For the part that is awaited now.
    patience: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Answer {
    type Data = <conn::Body as HttpBody>::Data;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.patience = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(limit) = self.limit else { return Poll::Pending };
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Some(Err(Silent { limit }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
