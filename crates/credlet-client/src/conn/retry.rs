//! What may be sent again, and how often.

use std::error::Error as StdError;
use std::io;

use h2::Reason;
use http::header::{AUTHORIZATION, UPGRADE};
use http::{HeaderValue, Method, Request};
use http_body::Body as _;

use super::Error;
use super::body::Payload;
use super::error::chain;

/// So often a request is sent that never left us: each time another connection had just been closed.
const UNSENT: u8 = 8;

/// What of it is used up by a connection on which the server never said a word. Perhaps it was just shutting down, but
/// more likely it wants nothing to do with us.
const STILLBORN: u8 = 4;

/// An attempt that brought no answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: Error,
    pub(super) failure: Failure,
    /// The request itself, if it comes back.
    pub(super) request: Option<Request<Payload>>,
}

impl Failed {
    /// Nothing was written.
    pub(super) fn unsent(error: Error, request: Request<Payload>) -> Self {
        Self { error, failure: Failure::Unsent, request: Some(request) }
    }

    /// There was no connection. It is worth another try only if the server had no part in that, or had taken it and was
    /// gone before anything could be sent: HTTP/2 has something to say of its own before the first request.
    pub(super) fn undialled(error: Error, request: Request<Payload>) -> Self {
        match error {
            Error::Stopped { .. } | Error::Rotated { .. } => Self::unsent(error, request),
            Error::Broken { .. } => Self::lost(error, request, false),
            _ => Self { error, failure: Failure::Final, request: Some(request) },
        }
    }

    /// Nothing was written, because the connection has ended. `settled`: after the server had said its first word.
    pub(super) fn lost(error: Error, request: Request<Payload>, settled: bool) -> Self {
        let failure = if settled { Failure::Unsent } else { Failure::Stillborn };
        Self { error, failure, request: Some(request) }
    }
}

/// What the server has had of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing.
    Unsent,
    /// Nothing, and it has not said anything either.
    Stillborn,
    /// All of it perhaps, but it says that it has done nothing with it.
    Unprocessed,
    /// Perhaps some. The connection had served before, and was probably dead when the request was put on it.
    Broken,
    /// Perhaps all.
    Final,
}

impl Failure {
    /// Whether the server cannot have had any of it.
    fn is_unsent(self) -> bool {
        matches!(self, Self::Unsent | Self::Stillborn)
    }

    /// Somebody took the connection, and closed it without a word to the request.
    pub(super) fn is_break(self) -> bool {
        matches!(self, Self::Broken | Self::Stillborn)
    }

    /// `proven`: the connection had served before. `unheard`: nothing has gone out since the request was put on it.
    pub(super) fn of(error: &(dyn StdError + 'static), proven: bool, unheard: bool) -> Self {
        if chain(error).any(unprocessed) {
            return Self::Unprocessed;
        }
        match (chain(error).any(broken), proven, unheard) {
            (true, true, true) => Self::Unsent,
            (true, false, true) => Self::Stillborn,
            (true, true, false) => Self::Broken,
            _ => Self::Final,
        }
    }
}

fn unprocessed(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref::<h2::Error>().is_some_and(|error| {
        let reason = error.reason();
        error.is_remote()
            && (reason == Some(Reason::REFUSED_STREAM) || (error.is_go_away() && reason == Some(Reason::NO_ERROR)))
    })
}

fn broken(error: &(dyn StdError + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        // A request that waits inside the library when the connection dies is reported as an error of the user.
        return error.is_incomplete_message() || error.is_canceled() || error.is_closed() || error.is_user();
    }
    error.is::<io::Error>() || error.downcast_ref::<h2::Error>().is_some_and(h2::Error::is_io)
}

/// A request on its way through as many attempts as it may have.
pub(super) struct Call {
    request: Option<Request<Payload>>,
    /// The caller's own `Authorization` is left alone.
    own_authorization: bool,
    pub(super) upgrade: bool,
    unsent: u8,
    replays: u8,
    /// A connection has broken under it already.
    broke: bool,
    /// It was sent by another route already.
    rerouted: bool,
}

impl Call {
    pub(super) fn new(request: Request<Payload>, replays: u8) -> Self {
        Self {
            own_authorization: request.headers().contains_key(AUTHORIZATION),
            upgrade: request.headers().contains_key(UPGRADE),
            request: Some(request),
            unsent: UNSENT,
            replays,
            broke: false,
            rerouted: false,
        }
    }

    /// The request for the next attempt, with the credential of now. A copy stays here if there can be another one.
    pub(super) fn next(&mut self, authorization: Option<&HeaderValue>) -> Option<Request<Payload>> {
        let mut request = self.request.take()?;
        if !self.own_authorization {
            match authorization {
                Some(value) => request.headers_mut().insert(AUTHORIZATION, value.clone()),
                None => request.headers_mut().remove(AUTHORIZATION),
            };
        }
        if self.replays > 0 {
            self.request = copy(&request);
        }
        Some(request)
    }

    /// Whether to try again by another route, which is worth it once: nobody is at the end of this one, or not who
    /// should be, or somebody who lets everyone in and answers no one. Whoever may have had the request all the same must
    /// not get it twice.
    pub(super) fn wants_another_route(&self, failed: &Failed) -> bool {
        let unsent = failed.request.is_some() || (failed.failure.is_unsent() && self.request.is_some());
        let again = self.broke && failed.failure.is_break();
        !self.rerouted && (failed.error.asks_for_another_route() || again) && (unsent || self.is_harmless())
    }

    /// Whether the next request needs another route, although this one may not go by it.
    pub(super) fn leaves_route(&self, failed: &Failed) -> bool {
        !self.rerouted && failed.error.asks_for_another_route()
    }

    /// Keeps the request for the other route, and gives the error.
    pub(super) fn take_back(&mut self, failed: Failed) -> Error {
        self.rerouted = true;
        if failed.request.is_some() {
            self.request = failed.request;
        }
        failed.error
    }

    /// Whether to try again.
    ///
    /// # Errors
    /// That of the attempt, if it was the last.
    pub(super) fn again(&mut self, failed: Failed) -> Result<(), Error> {
        let Failed { error, failure, request } = failed;
        let left = match failure {
            Failure::Final => None,
            Failure::Unsent => self.unsent.checked_sub(1).inspect(|left| self.unsent = *left),
            Failure::Stillborn => self.unsent.checked_sub(STILLBORN).inspect(|left| self.unsent = *left),
            Failure::Broken if !self.is_harmless() => None,
            Failure::Unprocessed | Failure::Broken => self.replays.checked_sub(1).inspect(|left| self.replays = *left),
        };
        if request.is_some() {
            self.request = request;
        }
        if left.is_none() || self.request.is_none() {
            return Err(error);
        }
        self.broke |= failure.is_break();
        tracing::debug!(%error, ?failure, "sending the request again");
        Ok(())
    }

    /// Whether it may reach the server twice.
    fn is_harmless(&self) -> bool {
        self.request.as_ref().is_some_and(|request| {
            let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
            safe && !self.upgrade && request.body().is_end_stream()
        })
    }
}

fn copy(request: &Request<Payload>) -> Option<Request<Payload>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
