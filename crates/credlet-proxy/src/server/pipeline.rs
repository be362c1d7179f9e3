//! Processing steps of a request. Their order matters; each step states why it has its position.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use credlet_exec::Clock;
use credlet_http::{CredentialGeneration, RequestBody, ResponseBody};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::authority::AllowedAuthorities;
use super::error_response::ProxyError;
use super::metrics::{InFlightGuard, ProxyMetrics};
use super::{body, headers, upgrade, user_presence};
use crate::policy::PolicySet;
use crate::sign::{BodyDigest, Signer};

/// Maximum number of requests in flight.
const MAX_IN_FLIGHT: u64 = 10_000;

/// `tracing` target of the access log, with one event per request.
pub const ACCESS_LOG_TARGET: &str = "credlet_proxy::access";

/// Maximum size of a request head in bytes. kubectl sends a few hundred.
pub(super) const MAX_HEAD_SIZE: u32 = 64 << 10;

/// Shared state of all requests.
pub(super) struct RequestPipeline {
    pub(super) signer: Arc<dyn Signer>,
    /// `None` if there are no policies to check.
    pub(super) policies: Option<PolicySet>,
    pub(super) upstream: credlet_http::HttpClient,
    /// Value of [`Signer::key_losses`] at the last check.
    pub(super) losses: AtomicU64,
    pub(super) metrics: Arc<ProxyMetrics>,
    pub(super) clock: Arc<dyn Clock>,
    /// Becomes true at shutdown, when upgraded connections are closed.
    pub(super) shutdown: watch::Receiver<bool>,
}

impl RequestPipeline {
    /// Handles one request. `authorities` are those of the listener, or `None` if the client belongs to another proxy.
    pub(super) async fn handle(
        self: Arc<Self>,
        authorities: Option<Arc<AllowedAuthorities>>,
        request: Request<Incoming>,
    ) -> Result<Response<ProxyBody>, Infallible> {
        // 1. Metrics and access log. Outermost, so that every response is counted as the client sees it. The log
        //    contains the path without the query, which may hold a token, and no headers.
        let in_flight = InFlightGuard::begin(&self.metrics, &self.clock);
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let began = self.clock.monotonic();

        // 2. Error responses. Errors of all later steps become a `Status` object that Kubernetes clients understand,
        //    marked as a response of the proxy.
        let mut response = match self.forward(authorities.as_deref(), request, in_flight).await {
            Ok(response) => response,
            Err(error) => {
                tracing::debug!(?error, "rejected request");
                error.into_response()
            }
        };
        // The version of the upstream hop does not apply here.
        *response.version_mut() = http::Version::HTTP_11;
        self.metrics.record_response(response.status());
        let took = self.clock.monotonic().saturating_sub(began).as_millis() as u64;
        tracing::info!(target: ACCESS_LOG_TARGET, %method, path = %credlet_api::escape_control_chars(&path), code = response.status().as_u16(), took, "request");
        Ok(response)
    }

    async fn forward(
        &self,
        authorities: Option<&AllowedAuthorities>,
        mut request: Request<Incoming>,
        in_flight: InFlightGuard,
    ) -> Result<Response<ProxyBody>, ProxyError> {
        // 3. Limits. Before any work is done.
        if self.metrics.in_flight() > MAX_IN_FLIGHT {
            return Err(ProxyError::too_many_requests());
        }
        headers::check_size(request.headers(), MAX_HEAD_SIZE)?;
        headers::check_body_length(request.headers())?;

        // 4. Authority and method. Before headers are used: a browser page (DNS rebinding) or a client with an outdated
        //    address must not get a response that is meant for another server or another client.
        let authorities = authorities.ok_or_else(ProxyError::other_proxy)?;
        headers::check_method(request.method())?;
        authorities.check(&request)?;

        // 5. Upgrade detection. Before step 7 removes the upgrade headers.
        let upgrade_to = headers::requested_upgrade(&request);

        // 6. Policies. They need to know about upgrades and see the client's original headers, so that listing a header
        //    in `Connection` cannot hide it. Before anything is read, signed or sent.
        if let Some(policies) = &self.policies {
            policies.check(&request, upgrade_to.as_ref().map(HeaderValue::as_bytes)).map_err(|message| {
                self.metrics.record_forbidden();
                ProxyError::forbidden(message)
            })?;
        }
        let client_half = upgrade_to.as_ref().map(|_| hyper::upgrade::on(&mut request));

        // 7. Header cleaning. Before signing, so that the signature covers the headers that the API server receives.
        let (mut head, incoming) = request.into_parts();
        headers::clean_request(&mut head.headers);
        if let Some(protocol) = &upgrade_to {
            headers::set_upgrade(&mut head.headers, protocol);
        }
        // Path and query stay byte for byte; only the authority changes.
        head.uri = authorities.addressed(&head.uri)?;
        head.version = http::Version::HTTP_11;
        // Extensions belong to the client's connection.
        head.extensions.clear();

        // 8. Body. A signer may need its digest.
        let (payload, digest) = body::prepare(self.signer.body(&head), &head.headers, incoming).await?;

        // 9. Sign and send through `credlet_http`, which handles HTTP/2, HTTP/1.1, upstream proxies and upgrades.
        let mut response = self.send(head, payload, digest).await?;

        // 10. Response. A `101` connects both upgraded connections; other responses have hop-by-hop headers removed.
        if let Some(client_half) = client_half.filter(|_| response.status() == StatusCode::SWITCHING_PROTOCOLS) {
            return Ok(upgrade::join(client_half, response, in_flight, self.shutdown.clone()));
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(ProxyError::unexpected_upgrade());
        }
        headers::clean_response(response.headers_mut());
        response.extensions_mut().clear();
        Ok(response.map(|body| ProxyBody { rest: BodySource::Upstream(body), in_flight: Some(in_flight) }))
    }

    /// Signs and sends a request. On `401` it is retried once, if the signer has another credential and the body can be
    /// sent again.
    async fn send(
        &self,
        head: Parts,
        payload: RequestBody,
        digest: BodyDigest,
    ) -> Result<Response<ResponseBody>, ProxyError> {
        let spare = payload.try_clone().map(|payload| (copy(&head), payload));
        let response = self.send_once(head, payload, digest).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let generation = response
            .extensions()
            .get::<CredentialGeneration>()
            .map_or(0, |CredentialGeneration(generation)| *generation);
        match (self.signer.on_unauthorized(generation).await, spare) {
            (Ok(true), Some((head, payload))) => self.send_once(head, payload, digest).await,
            // The API server's response is more useful to the client than the signer's error.
            _ => Ok(response),
        }
    }

    async fn send_once(
        &self,
        head: Parts,
        payload: RequestBody,
        digest: BodyDigest,
    ) -> Result<Response<ResponseBody>, ProxyError> {
        let mut head = head;
        let signer = &*self.signer;
        let credential = user_presence::or_user_action(signer, signer.credential()).await;
        user_presence::close_after_key_loss(signer, &self.upstream, &self.losses);
        let credential = credential?;
        if credential.generation != self.upstream.generation() {
            self.upstream.publish(credential)?;
        }
        signer.sign(&mut head, digest).await?;
        user_presence::connect(signer, &self.upstream, &head).await?;
        let response = self.upstream.send(Request::from_parts(head, payload)).await?;
        self.signer.on_response(response.headers());
        Ok(response)
    }
}

impl fmt::Debug for RequestPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestPipeline").field("signer", &self.signer).field("upstream", &self.upstream).finish()
    }
}

fn copy(head: &Parts) -> Parts {
    let mut copy = Request::new(()).into_parts().0;
    copy.method.clone_from(&head.method);
    copy.uri = Uri::clone(&head.uri);
    copy.headers.clone_from(&head.headers);
    copy
}

/// Body of a response: streamed from the API server, or a complete body of the proxy.
pub(super) struct ProxyBody {
    rest: BodySource,
    /// Held until the response is complete.
    in_flight: Option<InFlightGuard>,
}

enum BodySource {
    Upstream(ResponseBody),
    Whole(Option<Bytes>),
    /// Ends with an error after the frames before it are written.
    Broken(Option<credlet_http::HttpError>),
}

impl ProxyBody {
    pub(super) fn whole(text: impl Into<Bytes>) -> Self {
        Self { rest: BodySource::Whole(Some(text.into()).filter(|text| !text.is_empty())), in_flight: None }
    }
}

impl HttpBody for ProxyBody {
    type Data = Bytes;
    type Error = credlet_http::HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, credlet_http::HttpError>>> {
        match &mut self.rest {
            BodySource::Whole(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            BodySource::Broken(error) => Poll::Ready(error.take().map(Err)),
            BodySource::Upstream(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                if !matches!(frame, Some(Ok(_))) {
                    self.in_flight = None;
                }
                if let Some(Err(error)) = frame {
                    // On an error hyper closes the connection at once and discards buffered data, perhaps the last
                    // lines of a log. Returning Pending first lets it flush.
                    self.rest = BodySource::Broken(Some(error));
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.rest {
            BodySource::Whole(text) => text.is_none(),
            BodySource::Broken(error) => error.is_none(),
            BodySource::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            BodySource::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            BodySource::Upstream(body) => body.size_hint(),
            BodySource::Broken(_) => SizeHint::default(),
        }
    }
}
