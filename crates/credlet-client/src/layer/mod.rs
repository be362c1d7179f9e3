//! Tower middleware that authenticates requests and replaces a credential that the server rejects with `401`.
//!
//! [`AuthenticatedService`] wraps any clonable HTTP service. A request that already has an `Authorization` header passes
//! unchanged. For all others:
//!
//! - if the cached credential is valid, the request is sent at once, without an allocation or a lock;
//! - otherwise the request waits for a new credential, which is fetched once for all waiting requests;
//! - after a `401` the credential is replaced, once for all requests that were sent with it, and the request is retried
//!   once if its body can be cloned and the new credential differs. Otherwise the caller gets the `401`.
//!
//! # Where `Authorization` is set
//!
//! Exactly one place sets the header, depending on the service below (`CredentialDelivery`):
//!
//! - **Any tower service** ([`AuthenticatedService::new`]): this module inserts it, in `AuthState::prepare`.
//! - **The connection pool of [`Client`](crate::Client)**: `AuthState::prepare` leaves the request alone and calls
//!   [`ConnectionCredentials::publish`](crate::ConnectionCredentials::publish), which hands header, certificate and route of
//!   the credential to the pool as one [`HttpCredential`](credlet_http::HttpCredential). The pool inserts the header for each
//!   attempt, so that a request that it retries on another connection is sent with the newest token. The response's
//!   [`CredentialGeneration`] extension reports which credential was sent.

mod future;
mod retry;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use credlet_api::exec::FailedResponse;
use credlet_exec::CachedValue;
use credlet_http::CredentialGeneration;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use tower_service::Service;

pub use self::future::ResponseFuture;
use self::retry::RetryRequest;
use crate::authenticator::{Authenticator, PreparedCredential};

/// Type-erased error of a tower service.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Reaction to a response that rejects the credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnUnauthorized {
    /// Replace the credential and retry the request once.
    #[default]
    Retry,
    /// Replace the credential and return the response to the caller, as client-go does.
    Refresh,
}

/// Policy of an [`AuthenticatedService`] for rejected credentials.
pub struct UnauthorizedPolicy<B> {
    /// Whether to retry.
    pub on_unauthorized: OnUnauthorized,
    /// Treats a `403` like a `401`. Off by default: API servers send `403` to authenticated users that lack a permission.
    pub forbidden_is_unauthorized: bool,
    /// Clones a request body for the retry, if possible. `None` disables retries.
    pub clone_body: Option<fn(&B) -> Option<B>>,
}

impl<B> Clone for UnauthorizedPolicy<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for UnauthorizedPolicy<B> {}

impl<B> Default for UnauthorizedPolicy<B> {
    fn default() -> Self {
        Self { on_unauthorized: OnUnauthorized::default(), forbidden_is_unauthorized: false, clone_body: None }
    }
}

impl<B> fmt::Debug for UnauthorizedPolicy<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnauthorizedPolicy")
            .field("on_unauthorized", &self.on_unauthorized)
            .field("forbidden_is_unauthorized", &self.forbidden_is_unauthorized)
            .field("clone_body", &self.clone_body.is_some())
            .finish()
    }
}

impl<B> UnauthorizedPolicy<B> {
    fn is_unauthorized(&self, status: StatusCode) -> bool {
        status == StatusCode::UNAUTHORIZED || (self.forbidden_is_unauthorized && status == StatusCode::FORBIDDEN)
    }

    /// A copy of the request for a retry. It must be made before the credential is added, because the retry is sent
    /// with another one.
    fn copy<S: Clone>(&self, service: &S, request: &Request<B>) -> Option<Box<RetryRequest<S, B>>> {
        match (self.clone_body, self.on_unauthorized) {
            (Some(clone_body), OnUnauthorized::Retry) => RetryRequest::new(service, request, clone_body),
            _ => None,
        }
    }
}

/// Publishes a credential to the connection pool.
type PublishFn = dyn Fn(&CachedValue<PreparedCredential>) -> Result<(), BoxError> + Send + Sync;

/// How a credential gets onto requests. See the module documentation.
#[derive(Clone)]
enum CredentialDelivery {
    /// This layer inserts `Authorization` into the request.
    RequestHeader,
    /// The connection pool below gets each new credential and inserts `Authorization` itself.
    ConnectionPool(Arc<PublishFn>),
}

/// Service that adds a credential to each request.
///
/// ```no_run
/// use credlet_client::layer::{AuthenticatedService, UnauthorizedPolicy};
/// # fn example<S>(service: S, authenticator: credlet_client::Authenticator) {
/// // Wraps any HTTP client that is a tower service. Bodies of type `()` can always be cloned.
/// let service = AuthenticatedService::new(service, authenticator)
///     .policy(UnauthorizedPolicy { clone_body: Some(|()| Some(())), ..UnauthorizedPolicy::default() });
/// # }
/// ```
pub struct AuthenticatedService<S, B> {
    inner: S,
    state: Arc<AuthState<B>>,
}

struct AuthState<B> {
    authenticator: Authenticator,
    policy: UnauthorizedPolicy<B>,
    delivery: CredentialDelivery,
}

impl<S, B> AuthenticatedService<S, B> {
    /// Wraps a service. Requests are not retried until a [`policy`](Self::policy) allows it.
    pub fn new(inner: S, authenticator: Authenticator) -> Self {
        let (policy, delivery) = (UnauthorizedPolicy::default(), CredentialDelivery::RequestHeader);
        Self { inner, state: Arc::new(AuthState { authenticator, policy, delivery }) }
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.state.authenticator
    }

    /// Sets the policy for rejected credentials.
    #[must_use]
    pub fn policy(self, policy: UnauthorizedPolicy<B>) -> Self {
        let AuthState { authenticator, delivery, .. } = &*self.state;
        let (authenticator, delivery) = (authenticator.clone(), delivery.clone());
        Self { inner: self.inner, state: Arc::new(AuthState { authenticator, policy, delivery }) }
    }

    /// Calls `publish` with the credential before each request instead of setting `Authorization`.
    pub(crate) fn publish_with(
        self,
        publish: impl Fn(&CachedValue<PreparedCredential>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        let (authenticator, policy) = (self.state.authenticator.clone(), self.state.policy);
        let delivery = CredentialDelivery::ConnectionPool(Arc::new(publish));
        Self { inner: self.inner, state: Arc::new(AuthState { authenticator, policy, delivery }) }
    }
}

impl<S: Clone, B> Clone for AuthenticatedService<S, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), state: Arc::clone(&self.state) }
    }
}

impl<S, B> fmt::Debug for AuthenticatedService<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticatedService")
            .field("authenticator", &self.state.authenticator)
            .field("policy", &self.state.policy)
            .finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for AuthenticatedService<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if request.headers().contains_key(AUTHORIZATION) {
            return ResponseFuture::passthrough(self.inner.call(request));
        }
        match self.state.authenticator.fresh() {
            Some(entry) => {
                let retry = self.state.policy.copy(&self.inner, &request);
                if let Err(error) = self.state.prepare(&entry, &mut request) {
                    return ResponseFuture::failed(error);
                }
                ResponseFuture::sent(self.inner.call(request), entry, Arc::clone(&self.state), retry)
            }
            None => {
                // `poll_ready` reserved a slot in `self.inner`, so the request takes that instance, and the clone stays.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::waiting(Arc::clone(&self.state), ready, request)
            }
        }
    }
}

impl<B> AuthState<B> {
    /// Makes the request one that is sent with this credential.
    fn prepare(&self, entry: &CachedValue<PreparedCredential>, request: &mut Request<B>) -> Result<(), BoxError> {
        match &self.delivery {
            CredentialDelivery::ConnectionPool(publish) => publish(entry),
            CredentialDelivery::RequestHeader => {
                if let Some(value) = entry.value().authorization() {
                    request.headers_mut().insert(AUTHORIZATION, value.clone());
                }
                Ok(())
            }
        }
    }

    /// The credential that the request was sent with: `taken`, unless the connection pool reports a newer one.
    fn sent_with<R>(
        &self,
        response: &Response<R>,
        taken: Arc<CachedValue<PreparedCredential>>,
    ) -> Arc<CachedValue<PreparedCredential>> {
        match response.extensions().get() {
            Some(&CredentialGeneration(generation)) if generation != taken.generation() => {
                let current = self.authenticator.fresh();
                current.filter(|current| current.generation() == generation).unwrap_or(taken)
            }
            _ => taken,
        }
    }

    /// Replaces a rejected credential. Returns `None` if the source has no other one. An error is logged and not returned: the
    /// caller gets the server's response.
    async fn replace(
        &self,
        rejected: &CachedValue<PreparedCredential>,
        response: FailedResponse,
    ) -> Option<Arc<CachedValue<PreparedCredential>>> {
        match self.authenticator.replace(rejected, response).await {
            Ok(entry) => entry,
            Err(error) => {
                tracing::warn!(%error, "failed to replace a rejected credential");
                None
            }
        }
    }
}

/// Returns status and headers of the rejecting response, which a v1alpha1 plugin gets as `spec.response`.
fn failed_response<R>(response: &Response<R>) -> FailedResponse {
    let mut failed = FailedResponse { code: response.status().as_u16().into(), ..FailedResponse::default() };
    for (name, value) in response.headers() {
        let values = failed.header.entry(name.as_str().to_owned()).or_default();
        values.push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    failed
}
