use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use credlet_exec::CachedValue;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::retry::RetryRequest;
use super::{AuthState, BoxError, failed_response};
use crate::authenticator::PreparedCredential;

type BoxFuture<R> = Pin<Box<dyn Future<Output = Result<Response<R>, BoxError>> + Send>>;

pin_project! {
    /// Response future of [`AuthenticatedService`](super::AuthenticatedService).
    pub struct ResponseFuture<S: Service<Request<B>>, B, R> {
        #[pin]
        state: ResponseState<S, B, R>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum ResponseState<S: Service<Request<B>>, B, R> {
        /// The request brought its own `Authorization`.
        Passthrough { #[pin] future: S::Future },
        /// Sent with a cached credential: the usual case, which needs no box.
        Sent {
            #[pin] future: S::Future,
            entry: Arc<CachedValue<PreparedCredential>>,
            auth: Arc<AuthState<B>>,
            retry: Option<Box<RetryRequest<S, B>>>,
        },
        /// Waiting for a credential, before the first attempt or after a `401`.
        Waiting { future: BoxFuture<R> },
        Failed { error: Option<BoxError> },
    }
}

impl<S, B, R> ResponseFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Send + 'static,
    R: Send + 'static,
{
    pub(super) fn passthrough(future: S::Future) -> Self {
        Self { state: ResponseState::Passthrough { future } }
    }

    pub(super) fn failed(error: BoxError) -> Self {
        Self { state: ResponseState::Failed { error: Some(error) } }
    }

    pub(super) fn sent(
        future: S::Future,
        entry: Arc<CachedValue<PreparedCredential>>,
        auth: Arc<AuthState<B>>,
        retry: Option<Box<RetryRequest<S, B>>>,
    ) -> Self {
        Self { state: ResponseState::Sent { future, entry, auth, retry } }
    }

    pub(super) fn waiting(auth: Arc<AuthState<B>>, ready: S, request: Request<B>) -> Self
    where
        S: Clone,
    {
        Self { state: ResponseState::Waiting { future: Box::pin(wait_and_send(auth, ready, request)) } }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Send + 'static,
    R: Send + 'static,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Passthrough { future } => return future.poll(cx).map_err(Into::into),
                StateProjection::Waiting { future } => return future.as_mut().poll(cx),
                StateProjection::Failed { error } => {
                    return Poll::Ready(Err(error
                        .take()
                        .unwrap_or_else(|| "response future polled after completion".into())));
                }
                StateProjection::Sent { future, entry, auth, retry } => {
                    let result = ready!(future.poll(cx));
                    match result {
                        Ok(response) if auth.policy.is_unauthorized(response.status()) => {
                            handle_unauthorized(Arc::clone(auth), Arc::clone(entry), response, retry.take())
                        }
                        Ok(response) => {
                            entry.mark_accepted();
                            return Poll::Ready(Ok(response));
                        }
                        Err(error) => return Poll::Ready(Err(error.into())),
                    }
                }
            };
            this.state.set(ResponseState::Waiting { future: Box::pin(next) });
        }
    }
}

async fn wait_and_send<S, B, R>(
    auth: Arc<AuthState<B>>,
    mut ready: S,
    mut request: Request<B>,
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    let entry = auth.authenticator.credential().await?;
    let retry = auth.policy.copy(&ready, &request);
    auth.prepare(&entry, &mut request)?;
    let response = ready.call(request).await.map_err(Into::into)?;
    if auth.policy.is_unauthorized(response.status()) {
        return handle_unauthorized(auth, entry, response, retry).await;
    }
    entry.mark_accepted();
    Ok(response)
}

/// Replaces `entry`, which the server rejected with this response, and retries the request if possible.
async fn handle_unauthorized<S, B, R>(
    auth: Arc<AuthState<B>>,
    entry: Arc<CachedValue<PreparedCredential>>,
    response: Response<R>,
    retry: Option<Box<RetryRequest<S, B>>>,
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
{
    let entry = auth.sent_with(&response, entry);
    let replaced = auth.replace(&entry, failed_response(&response)).await;
    let (Some(other), Some(retry)) = (replaced, retry) else { return Ok(response) };
    let (mut service, mut request) = retry.into_parts();
    // Frees the stream or connection of the first response for the retry.
    drop(response);
    auth.prepare(&other, &mut request)?;
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    let response = service.call(request).await.map_err(Into::into)?;
    if !auth.policy.is_unauthorized(response.status()) {
        other.mark_accepted();
    }
    Ok(response)
}
