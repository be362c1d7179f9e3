use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use credlet_core::Entry;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::again::Again;
use super::{BoxError, Shared, refusal};
use crate::authenticator::Issued;

type BoxFuture<R> = Pin<Box<dyn Future<Output = Result<Response<R>, BoxError>> + Send>>;

pin_project! {
    /// The answer to a request that leaves with a credential.
    pub struct ResponseFuture<S: Service<Request<B>>, B, R> {
        #[pin]
        state: State<S, B, R>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S: Service<Request<B>>, B, R> {
        /// With an `Authorization` of its own.
        Own { #[pin] future: S::Future },
        /// With ours. The usual case, and no box is made for it.
        Sent {
            #[pin] future: S::Future,
            entry: Arc<Entry<Issued>>,
            shared: Arc<Shared<B>>,
            again: Option<Box<Again<S, B>>>,
        },
        /// Waiting for a credential, before or after a refusal.
        Slow { future: BoxFuture<R> },
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
    pub(super) fn own(future: S::Future) -> Self {
        Self { state: State::Own { future } }
    }

    pub(super) fn failed(error: BoxError) -> Self {
        Self { state: State::Failed { error: Some(error) } }
    }

    pub(super) fn sent(
        future: S::Future,
        entry: Arc<Entry<Issued>>,
        shared: Arc<Shared<B>>,
        again: Option<Box<Again<S, B>>>,
    ) -> Self {
        Self { state: State::Sent { future, entry, shared, again } }
    }

    pub(super) fn waiting(shared: Arc<Shared<B>>, ready: S, request: Request<B>) -> Self
    where
        S: Clone,
    {
        Self { state: State::Slow { future: Box::pin(wait_and_send(shared, ready, request)) } }
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
                StateProjection::Own { future } => return future.poll(cx).map_err(Into::into),
                StateProjection::Slow { future } => return future.as_mut().poll(cx),
                StateProjection::Failed { error } => {
                    return Poll::Ready(Err(error.take().unwrap_or_else(|| "polled after its end".into())));
                }
                StateProjection::Sent { future, entry, shared, again } => {
                    let result = ready!(future.poll(cx));
                    match result {
                        Ok(response) if shared.policy.is_refusal(response.status()) => {
                            refused(Arc::clone(shared), Arc::clone(entry), response, again.take())
                        }
                        Ok(response) => {
                            entry.accept();
                            return Poll::Ready(Ok(response));
                        }
                        Err(error) => return Poll::Ready(Err(error.into())),
                    }
                }
            };
            this.state.set(State::Slow { future: Box::pin(next) });
        }
    }
}

async fn wait_and_send<S, B, R>(
    shared: Arc<Shared<B>>,
    mut ready: S,
    mut request: Request<B>,
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    let entry = shared.authenticator.credential().await?;
    let again = shared.policy.copy(&ready, &request);
    shared.prepare(&entry, &mut request)?;
    let response = ready.call(request).await.map_err(Into::into)?;
    if shared.policy.is_refusal(response.status()) {
        return refused(shared, entry, response, again).await;
    }
    entry.accept();
    Ok(response)
}

/// The server said no to `entry`.
async fn refused<S, B, R>(
    shared: Arc<Shared<B>>,
    entry: Arc<Entry<Issued>>,
    response: Response<R>,
    again: Option<Box<Again<S, B>>>,
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
{
    let entry = shared.sent_with(&response, entry);
    let replaced = shared.replace(&entry, refusal(&response)).await;
    let (Some(other), Some(again)) = (replaced, again) else { return Ok(response) };
    let (mut service, mut request) = again.into_parts();
    // The refusal is not needed any more; its place on the connection is.
    drop(response);
    shared.prepare(&other, &mut request)?;
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    let response = service.call(request).await.map_err(Into::into)?;
    if !shared.policy.is_refusal(response.status()) {
        other.accept();
    }
    Ok(response)
}
