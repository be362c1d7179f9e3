//! The tower layer that puts the credential on requests, and replaces one that is refused.
//!
//! It needs nothing of the service below but that it can be cloned. A request that has an `Authorization` of its own
//! goes through untouched. Otherwise:
//!
//! - fresh credential → header → service; nothing is allocated, nothing is locked;
//! - no fresh one → wait for it, once for everybody;
//! - `401` → replace that credential once for all who hold it → send the request once more, if its body can be sent
//!   again and the credential is another one; otherwise the `401` as it is.

mod again;
mod future;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use credlet_api::exec::Response as Refusal;
use credlet_core::Entry;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use tower_service::Service;

use self::again::Again;
pub use self::future::ResponseFuture;
use crate::authenticator::{Authenticator, Issued};
use crate::conn::SentWith;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What to do with a request whose credential is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnRefusal {
    /// Replace the credential, and send the request once more.
    #[default]
    Retry,
    /// Replace the credential, and give the caller the refusal: what client-go does.
    Refresh,
}

/// How [`Authenticate`] treats requests.
pub struct Policy<B> {
    /// What to do after a refusal.
    pub on_refusal: OnRefusal,
    /// Whether a `403` is a refusal too, as the proposal of 2019 has it. API servers send it to people who are known
    /// and not allowed, so it is not by default.
    pub forbidden_is_refusal: bool,
    /// Makes a second body of a first, if that can be done. `None`: no request is ever sent twice.
    pub replay: Option<fn(&B) -> Option<B>>,
}

impl<B> Clone for Policy<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Policy<B> {}

impl<B> Default for Policy<B> {
    fn default() -> Self {
        Self { on_refusal: OnRefusal::default(), forbidden_is_refusal: false, replay: None }
    }
}

impl<B> fmt::Debug for Policy<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("on_refusal", &self.on_refusal)
            .field("forbidden_is_refusal", &self.forbidden_is_refusal)
            .field("replay", &self.replay.is_some())
            .finish()
    }
}

impl<B> Policy<B> {
    fn is_refusal(&self, status: StatusCode) -> bool {
        status == StatusCode::UNAUTHORIZED || (self.forbidden_is_refusal && status == StatusCode::FORBIDDEN)
    }

    /// Another request like this one, should it be needed. Made before the credential is put on, because it would leave
    /// with another.
    fn copy<S: Clone>(&self, service: &S, request: &Request<B>) -> Option<Box<Again<S, B>>> {
        match (self.replay, self.on_refusal) {
            (Some(replay), OnRefusal::Retry) => Again::new(service, request, replay),
            _ => None,
        }
    }
}

/// Told of every credential before a request is sent with it: makes connections with its certificate, and puts its
/// token on requests.
type Announce = dyn Fn(&Entry<Issued>) -> Result<(), BoxError> + Send + Sync;

/// A service whose requests leave with a credential.
///
/// ```no_run
/// use credlet_client::http::{Authenticate, Policy};
/// # fn example<S>(service: S, authenticator: credlet_client::Authenticator) {
/// // Over any HTTP client that is a tower service; bodies of `()` can always be sent again.
/// let service = Authenticate::new(service, authenticator)
///     .policy(Policy { replay: Some(|()| Some(())), ..Policy::default() });
/// # }
/// ```
pub struct Authenticate<S, B> {
    inner: S,
    shared: Arc<Shared<B>>,
}

struct Shared<B> {
    authenticator: Authenticator,
    policy: Policy<B>,
    announce: Option<Box<Announce>>,
}

impl<S, B> Authenticate<S, B> {
    /// Requests that are refused are not sent again until a [`Policy`] says how.
    pub fn new(inner: S, authenticator: Authenticator) -> Self {
        Self { inner, shared: Arc::new(Shared { authenticator, policy: Policy::default(), announce: None }) }
    }

    /// Whom it asks.
    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.shared.authenticator
    }

    /// With this policy.
    #[must_use]
    pub fn policy(self, policy: Policy<B>) -> Self {
        let authenticator = self.shared.authenticator.clone();
        Self { inner: self.inner, shared: Arc::new(Shared { authenticator, policy, announce: None }) }
    }

    /// With somebody who must know of a credential before requests are sent with it.
    pub(crate) fn announcing(
        self,
        announce: impl Fn(&Entry<Issued>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        let (authenticator, policy) = (self.shared.authenticator.clone(), self.shared.policy);
        let announce: Box<Announce> = Box::new(announce);
        Self { inner: self.inner, shared: Arc::new(Shared { authenticator, policy, announce: Some(announce) }) }
    }
}

impl<S: Clone, B> Clone for Authenticate<S, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S, B> fmt::Debug for Authenticate<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticate")
            .field("authenticator", &self.shared.authenticator)
            .field("policy", &self.shared.policy)
            .finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for Authenticate<S, B>
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
            return ResponseFuture::own(self.inner.call(request));
        }
        // The clone is for later; the one that was asked whether it is ready gets the request.
        match self.shared.authenticator.fresh() {
            Some(entry) => {
                let again = self.shared.policy.copy(&self.inner, &request);
                if let Err(error) = self.shared.prepare(&entry, &mut request) {
                    return ResponseFuture::failed(error);
                }
                ResponseFuture::sent(self.inner.call(request), entry, Arc::clone(&self.shared), again)
            }
            None => {
                let spare = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, spare);
                ResponseFuture::waiting(Arc::clone(&self.shared), ready, request)
            }
        }
    }
}

impl<B> Shared<B> {
    /// Makes a request one that is sent with this credential.
    fn prepare(&self, entry: &Entry<Issued>, request: &mut Request<B>) -> Result<(), BoxError> {
        if let Some(announce) = &self.announce {
            // Whoever is told puts the token on by itself, so that each attempt leaves with the newest.
            return announce(entry);
        }
        if let Some(value) = entry.value().authorization() {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        Ok(())
    }

    /// The credential that a request was refused with: `taken`, unless the connections sent it with a newer one.
    fn sent_with<R>(&self, response: &Response<R>, taken: Arc<Entry<Issued>>) -> Arc<Entry<Issued>> {
        match response.extensions().get() {
            Some(&SentWith(serial)) if serial != taken.generation() => {
                let current = self.authenticator.fresh();
                current.filter(|current| current.generation() == serial).unwrap_or(taken)
            }
            _ => taken,
        }
    }

    /// Another credential than the refused one, if there is one.
    async fn replace(&self, refused: &Entry<Issued>, refusal: Refusal) -> Option<Arc<Entry<Issued>>> {
        match self.authenticator.replace(refused, refusal).await {
            Ok(entry) => entry,
            Err(error) => {
                // The caller gets the server's refusal, which came first.
                tracing::warn!(%error, "a refused credential could not be replaced");
                None
            }
        }
    }
}

/// What a plugin of 2018 is told about the refusal.
fn refusal<R>(response: &Response<R>) -> Refusal {
    let mut refusal = Refusal { code: response.status().as_u16().into(), ..Refusal::default() };
    for (name, value) in response.headers() {
        let values = refusal.header.entry(name.as_str().to_owned()).or_default();
        values.push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    refusal
}
