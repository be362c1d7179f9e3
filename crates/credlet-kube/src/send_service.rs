//! Innermost service: converts bodies, sends requests with [`Client`], and enforces the read timeout.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use credlet_client::Client;
use credlet_http::RequestBody;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use tokio::time::Sleep;
use tower::{BoxError, Service};

/// Sends requests of kube with a [`Client`].
#[derive(Clone, Debug)]
pub(crate) struct SendService {
    pub(crate) client: Client,
    pub(crate) read_timeout: Option<Duration>,
}

impl Service<Request<Body>> for SendService {
    type Response = Response<TimeoutBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<TimeoutBody>, BoxError>> + Send>>;

    /// Always ready: the connection pool queues requests at the server's stream limit.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, read_timeout } = self.clone();
        Box::pin(async move {
            let request = request.map(request_body);
            let response = match read_timeout {
                None => client.send(request).await?,
                Some(timeout) => {
                    if !request.headers().contains_key(AUTHORIZATION) {
                        client.ready().await?;
                    }
                    let response = tokio::time::timeout(timeout, client.send(request)).await;
                    response.map_err(|_| ReadTimeoutError { timeout })??
                }
            };
            Ok(response.map(|body| TimeoutBody { body, read_timeout, sleep: None }))
        })
    }
}

/// Converts a body. A buffered body stays buffered, so that the request can be retried.
fn request_body(mut body: Body) -> RequestBody {
    if body.try_clone().is_none() {
        return RequestBody::stream(body);
    }
    // A buffered body is ready at once, so no waker is needed.
    match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().map_or_else(|_| RequestBody::empty(), RequestBody::from),
        _ => RequestBody::empty(),
    }
}

/// The server sent nothing for [`KubeClientOptions::read_timeout`](crate::KubeClientOptions::read_timeout).
#[derive(Clone, Debug, thiserror::Error)]
#[error("timed out reading the response after {} seconds", timeout.as_secs_f32())]
pub struct ReadTimeoutError {
    /// The read timeout.
    pub timeout: Duration,
}

/// Response body with a read timeout.
pub(crate) struct TimeoutBody {
    body: credlet_http::ResponseBody,
    read_timeout: Option<Duration>,
    /// Timeout of the next frame.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for TimeoutBody {
    type Data = <credlet_http::ResponseBody as HttpBody>::Data;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.sleep = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(timeout) = self.read_timeout else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(ReadTimeoutError { timeout }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
