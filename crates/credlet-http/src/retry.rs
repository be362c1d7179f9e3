//! Decides whether and how often a failed request is retried.

use std::error::Error as StdError;
use std::io;

use h2::Reason;
use http::header::{AUTHORIZATION, UPGRADE};
use http::{HeaderValue, Method, Request};
use http_body::Body as _;

use super::HttpError;
use super::body::RequestBody;
use super::error::chain;

/// Retry budget of a request that was never sent: each time the connection had just been closed.
const UNSENT_RETRIES: u8 = 8;

/// Share of [`UNSENT_RETRIES`] that is used up by a connection on which the server sent no SETTINGS. The server may have
/// been shutting down, but more likely it rejects this client.
const NO_SETTINGS_RETRY_COST: u8 = 4;

/// An attempt without a response.
#[derive(Debug)]
pub(super) struct FailedAttempt {
    pub(super) error: HttpError,
    pub(super) delivery: DeliveryState,
    /// The request, if the HTTP library returned it.
    pub(super) request: Option<Request<RequestBody>>,
}

impl FailedAttempt {
    /// Nothing was sent.
    pub(super) fn unsent(error: HttpError, request: Request<RequestBody>) -> Self {
        Self { error, delivery: DeliveryState::Unsent, request: Some(request) }
    }

    /// No connection could be opened. A retry is useful only if the attempt was canceled on this side, or if the server
    /// accepted the connection and closed it before the first request (HTTP/2 exchanges SETTINGS before).
    pub(super) fn not_connected(error: HttpError, request: Request<RequestBody>) -> Self {
        match error {
            HttpError::Canceled { .. } | HttpError::CredentialRotated { .. } => Self::unsent(error, request),
            HttpError::ConnectionLost { .. } => Self::connection_closed(error, request, false),
            _ => Self { error, delivery: DeliveryState::MaybeProcessed, request: Some(request) },
        }
    }

    /// Nothing was sent because the connection has closed. `established`: the server had sent SETTINGS or a response.
    pub(super) fn connection_closed(error: HttpError, request: Request<RequestBody>, established: bool) -> Self {
        let delivery = if established { DeliveryState::Unsent } else { DeliveryState::NoSettings };
        Self { error, delivery, request: Some(request) }
    }
}

/// How much of a failed request the server may have received and processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryState {
    /// Nothing was sent.
    Unsent,
    /// Nothing was sent, and the server closed the connection without having sent anything.
    NoSettings,
    /// The request may have been sent, but the server reports that it did not process it.
    NotProcessed,
    /// A part may have been sent. The connection had worked before and was probably dead when the request was sent.
    ConnectionLost,
    /// The server may have processed the request.
    MaybeProcessed,
}

impl DeliveryState {
    fn is_unsent(self) -> bool {
        matches!(self, Self::Unsent | Self::NoSettings)
    }

    /// Whether the peer accepted the connection and closed it without a response.
    pub(super) fn is_connection_lost(self) -> bool {
        matches!(self, Self::ConnectionLost | Self::NoSettings)
    }

    /// Classifies an error of the HTTP library. `proven`: the connection had worked before. `nothing_written`: no byte was
    /// written since the request was put on the connection.
    pub(super) fn of(error: &(dyn StdError + 'static), proven: bool, nothing_written: bool) -> Self {
        if chain(error).any(is_not_processed) {
            return Self::NotProcessed;
        }
        match (chain(error).any(is_connection_error), proven, nothing_written) {
            (true, true, true) => Self::Unsent,
            (true, false, true) => Self::NoSettings,
            (true, true, false) => Self::ConnectionLost,
            _ => Self::MaybeProcessed,
        }
    }
}

fn is_not_processed(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref::<h2::Error>().is_some_and(|error| {
        let reason = error.reason();
        error.is_remote()
            && (reason == Some(Reason::REFUSED_STREAM) || (error.is_go_away() && reason == Some(Reason::NO_ERROR)))
    })
}

fn is_connection_error(error: &(dyn StdError + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        // A request that is queued in hyper when the connection closes is reported as a user error.
        return error.is_incomplete_message() || error.is_canceled() || error.is_closed() || error.is_user();
    }
    error.is::<io::Error>() || error.downcast_ref::<h2::Error>().is_some_and(h2::Error::is_io)
}

/// A request and its remaining retries.
pub(super) struct RetryState {
    request: Option<Request<RequestBody>>,
    /// The caller set `Authorization`; it is not replaced.
    has_authorization: bool,
    pub(super) upgrade: bool,
    unsent_retries: u8,
    retries: u8,
    /// A connection was lost during an earlier attempt.
    connection_lost: bool,
    /// The route was renewed for this request.
    rerouted: bool,
}

impl RetryState {
    pub(super) fn new(request: Request<RequestBody>, max_retries: u8) -> Self {
        Self {
            has_authorization: request.headers().contains_key(AUTHORIZATION),
            upgrade: request.headers().contains_key(UPGRADE),
            request: Some(request),
            unsent_retries: UNSENT_RETRIES,
            retries: max_retries,
            connection_lost: false,
            rerouted: false,
        }
    }

    /// Returns the request for the next attempt, with the current credential. Keeps a copy if it can be retried.
    pub(super) fn next_attempt(&mut self, authorization: Option<&HeaderValue>) -> Option<Request<RequestBody>> {
        let mut request = self.request.take()?;
        if !self.has_authorization {
            match authorization {
                Some(value) => request.headers_mut().insert(AUTHORIZATION, value.clone()),
                None => request.headers_mut().remove(AUTHORIZATION),
            };
        }
        if self.retries > 0 {
            self.request = copy(&request);
        }
        Some(request)
    }

    /// Whether to renew the route and retry, at most once per request: no peer listens, TLS with it failed, or it
    /// accepts connections and closes them without a response. A request that the peer may have received is rerouted only
    /// if it is safe to repeat.
    pub(super) fn should_reroute(&self, failed: &FailedAttempt) -> bool {
        let unsent = failed.request.is_some() || (failed.delivery.is_unsent() && self.request.is_some());
        let lost_again = self.connection_lost && failed.delivery.is_connection_lost();
        !self.rerouted && (failed.error.needs_another_route() || lost_again) && (unsent || self.is_repeatable())
    }

    /// Whether the route must be renewed for the next request although this one cannot be retried.
    pub(super) fn abandons_route(&self, failed: &FailedAttempt) -> bool {
        !self.rerouted && failed.error.needs_another_route()
    }

    /// Keeps the request for the renewed route, and returns the error.
    pub(super) fn reroute(&mut self, failed: FailedAttempt) -> HttpError {
        self.rerouted = true;
        if failed.request.is_some() {
            self.request = failed.request;
        }
        failed.error
    }

    /// Prepares the next attempt, or returns the error of this one if it must not be retried, or not again.
    pub(super) fn retry(&mut self, failed: FailedAttempt) -> Result<(), HttpError> {
        let FailedAttempt { error, delivery, request } = failed;
        let left = match delivery {
            DeliveryState::MaybeProcessed => None,
            DeliveryState::Unsent => self.spend_unsent(1),
            DeliveryState::NoSettings => self.spend_unsent(NO_SETTINGS_RETRY_COST),
            DeliveryState::ConnectionLost if !self.is_repeatable() => None,
            DeliveryState::NotProcessed | DeliveryState::ConnectionLost => {
                self.retries.checked_sub(1).inspect(|left| self.retries = *left)
            }
        };
        if request.is_some() {
            self.request = request;
        }
        if left.is_none() || self.request.is_none() {
            return Err(error);
        }
        self.connection_lost |= delivery.is_connection_lost();
        tracing::debug!(%error, ?delivery, "retrying request");
        Ok(())
    }

    fn spend_unsent(&mut self, cost: u8) -> Option<u8> {
        self.unsent_retries.checked_sub(cost).inspect(|left| self.unsent_retries = *left)
    }

    /// Whether the request may reach the server twice.
    fn is_repeatable(&self) -> bool {
        self.request.as_ref().is_some_and(|request| {
            let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
            safe && !self.upgrade && request.body().is_end_stream()
        })
    }
}

fn copy(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
