//! The way of a request through the proxy, from top to bottom. The order matters, so it stands here in one piece; each
//! step says why it is where it is.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use credlet_client::conn::{self, Body, Payload, SentWith};
use credlet_core::Clock;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::authority::Authorities;
use super::metrics::{InFlight, Metrics};
use super::rescue::Trouble;
use super::{body, headers, person, upgrade};
use crate::policy::Guard;
use crate::sign::{BodyDigest, Signer};

/// So many requests at once are no client's honest wish.
const MOST: u64 = 10_000;

/// Whose events are one for each request, so that they can be left out of a log.
pub const ACCESS: &str = "credlet_proxy::access";

/// How large the head of a request may be, in bytes. Those of kubectl have a few hundred.
pub(super) const LARGEST_HEAD: u32 = 64 << 10;

/// What all requests have in common.
pub(super) struct Stack {
    pub(super) signer: Arc<dyn Signer>,
    /// What is not passed on. `None`: there is no policy, and nothing is looked at.
    pub(super) guard: Option<Guard>,
    pub(super) upstream: conn::Client,
    /// How often the signer's key had been lost when its connections were last looked at.
    pub(super) losses: AtomicU64,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
    /// True when the proxy is about to end: upgraded connections are cut then.
    pub(super) ending: watch::Receiver<bool>,
}

impl Stack {
    /// One request. `authorities` are those of the listener that it came in by; none if its client is not one of ours.
    pub(super) async fn answer(
        self: Arc<Self>,
        authorities: Option<Arc<Authorities>>,
        request: Request<Incoming>,
    ) -> Result<Response<Reply>, Infallible> {
        // 1. Trace. Outermost, so that whatever happens below is counted, and counted as the client sees it. The log
        //    has the path alone: a query may hold a token, and so may any header.
        let in_flight = InFlight::begin(&self.metrics, &self.clock);
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let began = self.clock.monotonic();

        // 2. Rescue. Above everything that can fail: a failure becomes an answer that clients of the API can read, and
        //    that says it is not the API server's.
        let mut response = match self.pass_on(authorities.as_deref(), request, in_flight).await {
            Ok(response) => response,
            Err(trouble) => {
                tracing::debug!(?trouble, "a request is answered by the proxy itself");
                trouble.answer()
            }
        };
        // What is spoken on this hop is up to this hop.
        *response.version_mut() = http::Version::HTTP_11;
        self.metrics.answered(response.status());
        let took = self.clock.monotonic().saturating_sub(began).as_millis() as u64;
        tracing::info!(target: ACCESS, %method, path = %credlet_api::visible(&path), code = response.status().as_u16(), took, "request");
        Ok(response)
    }

    async fn pass_on(
        &self,
        authorities: Option<&Authorities>,
        mut request: Request<Incoming>,
        in_flight: InFlight,
    ) -> Result<Response<Reply>, Trouble> {
        // 3. Limits. Before any work is done.
        if self.metrics.in_flight() > MOST {
            return Err(Trouble::too_many());
        }
        headers::limit(request.headers(), LARGEST_HEAD)?;
        headers::one_length(request.headers())?;

        // 4. Is it for us? Before any header is believed: a page in a browser, or a client with a stale address, must
        //    not get an answer that is meant for another server, and one client none that is meant for another client.
        let authorities = authorities.ok_or_else(Trouble::other_proxy)?;
        if request.method() == Method::CONNECT {
            return Err(Trouble::no_tunnels());
        }
        authorities.check(&request)?;

        // 5. Is it an upgrade? Asked before the headers are cleaned, which removes the signs of it.
        let wanted = headers::wanted_upgrade(&request);

        // 6. Policy, if there is one. It has to know about upgrades, and sees the headers as the client wrote them, so
        //    that none escapes it by being named in `Connection`. Before anything is read, signed or sent.
        if let Some(guard) = &self.guard {
            guard.check(&request, wanted.as_ref().map(HeaderValue::as_bytes)).map_err(|message| {
                self.metrics.forbidden();
                Trouble::forbidden(message)
            })?;
        }
        let client_half = wanted.as_ref().map(|_| hyper::upgrade::on(&mut request));

        // 7. Headers. Cleaned before they are signed: the signature is to cover what arrives, and what is for this hop
        //    does not.
        let (mut head, incoming) = request.into_parts();
        headers::clean_request(&mut head.headers);
        if let Some(protocol) = &wanted {
            headers::ask_for_upgrade(&mut head.headers, protocol);
        }
        // As it came, to the byte; only the authority is the API server's own.
        head.uri = authorities.addressed(&head.uri)?;
        head.version = http::Version::HTTP_11;
        // An upgrade and the peer's address are of the connection that it came on.
        head.extensions.clear();

        // 8. Body. A signer may want to know all of it first.
        let (payload, digest) = body::prepare(self.signer.body(&head), &head.headers, incoming).await?;

        // 9. Sign and send, on connections that the client half of this project makes: HTTP/2 or HTTP/1.1, through
        //    whatever proxy leads to the API server, upgrades too.
        let mut response = self.send(head, payload, digest).await?;

        // 10. All the way back: the same for the other direction. A `101` hands both connections to each other.
        if let Some(client_half) = client_half.filter(|_| response.status() == StatusCode::SWITCHING_PROTOCOLS) {
            return Ok(upgrade::join(client_half, response, in_flight, self.ending.clone()));
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Trouble::unasked_upgrade());
        }
        headers::clean_response(response.headers_mut());
        response.extensions_mut().clear();
        Ok(response.map(|body| Reply { rest: Rest::Upstream(body), in_flight: Some(in_flight) }))
    }

    /// Sends a request with what the signer puts on it; once more if the API server says `401`, the signer has
    /// something else to try, and the body can be had again. Never a third time: whoever keeps refusing means it.
    async fn send(&self, head: Parts, payload: Payload, digest: BodyDigest) -> Result<Response<Body>, Trouble> {
        let spare = payload.try_clone().map(|payload| (copy(&head), payload));
        let response = self.send_once(head, payload, digest).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let serial = response.extensions().get::<SentWith>().map_or(0, |SentWith(serial)| *serial);
        match (self.signer.refused(serial).await, spare) {
            (Ok(true), Some((head, payload))) => self.send_once(head, payload, digest).await,
            // The API server's own word is worth more to the client than why there is no other credential.
            _ => Ok(response),
        }
    }

    async fn send_once(&self, head: Parts, payload: Payload, digest: BodyDigest) -> Result<Response<Body>, Trouble> {
        let mut head = head;
        let signer = &*self.signer;
        let credential = person::or_person(signer, signer.credential()).await;
        person::after_loss(signer, &self.upstream, &self.losses);
        let credential = credential?;
        if credential.serial != self.upstream.serial() {
            self.upstream.publish(credential)?;
        }
        signer.sign(&mut head, digest).await?;
        person::connect(signer, &self.upstream, &head).await?;
        let response = self.upstream.send(Request::from_parts(head, payload)).await?;
        self.signer.answered(response.headers());
        Ok(response)
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("signer", &self.signer).field("upstream", &self.upstream).finish()
    }
}

fn copy(head: &Parts) -> Parts {
    let mut copy = Request::new(()).into_parts().0;
    copy.method.clone_from(&head.method);
    copy.uri = Uri::clone(&head.uri);
    copy.headers.clone_from(&head.headers);
    copy
}

/// The body of an answer: the API server's, frame by frame as they come, or our own.
pub(super) struct Reply {
    rest: Rest,
    /// Until the answer has ended.
    in_flight: Option<InFlight>,
}

enum Rest {
    Upstream(Body),
    Whole(Option<Bytes>),
    /// It breaks off here, once all that came before has gone out.
    Broken(Option<conn::Error>),
}

impl Reply {
    pub(super) fn whole(text: impl Into<Bytes>) -> Self {
        Self { rest: Rest::Whole(Some(text.into()).filter(|text| !text.is_empty())), in_flight: None }
    }
}

impl HttpBody for Reply {
    type Data = Bytes;
    type Error = conn::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, conn::Error>>> {
        match &mut self.rest {
            Rest::Whole(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Rest::Broken(error) => Poll::Ready(error.take().map(Err)),
            Rest::Upstream(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                if !matches!(frame, Some(Ok(_))) {
                    self.in_flight = None;
                }
                if let Some(Err(error)) = frame {
                    // The HTTP library closes the connection at once, with what it has not written yet: perhaps the last
                    // lines of a log, or the head. It writes when there is nothing else to do.
                    self.rest = Rest::Broken(Some(error));
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.rest {
            Rest::Whole(text) => text.is_none(),
            Rest::Broken(error) => error.is_none(),
            Rest::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            Rest::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Rest::Upstream(body) => body.size_hint(),
            Rest::Broken(_) => SizeHint::default(),
        }
    }
}
