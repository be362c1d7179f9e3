//! What a proxy adds to a request: a client certificate, headers, a signature.

mod exec;
mod file;
mod headers;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use credlet_api::Secret;
use credlet_client::conn::Credential;
use http::request::Parts;

pub use self::exec::Exec;
pub use self::file::File;
pub use self::headers::Headers;

/// What a [`Signer`] returns.
pub type Signing<'a, T> = Pin<Box<dyn Future<Output = Result<T, SignError>> + Send + 'a>>;

/// Whoever authorizes requests on their way to the API server.
pub trait Signer: fmt::Debug + Send + Sync {
    /// What requests go out with: an `Authorization` header, a client certificate (whose key may live elsewhere), both
    /// or neither. Asked for each request, so it is cheap while nothing has changed; a new one has a higher serial.
    fn credential(&self) -> Signing<'_, Credential>;

    /// What [`sign`](Self::sign) must know about the body of a request with this head.
    fn body(&self, _head: &Parts) -> BodyRule {
        BodyRule::Stream
    }

    /// Puts on the request what depends on the request. The path, the query and the headers are what the API server
    /// will see; hop-by-hop headers are gone already. The URI is whole, with the API server's authority, and there is
    /// no `Host`: whoever signs one takes it from there.
    fn sign<'a>(&'a self, _head: &'a mut Parts, _body: BodyDigest) -> Signing<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// The headers of every answer from the API server, as they come by: `Date` tells a signer of a clock that is wrong.
    fn answered(&self, _headers: &http::HeaderMap) {}

    /// The API server has answered `401` to a request with this serial. `true`: [`credential`](Self::credential) may
    /// give another one now, so that the request is worth sending again.
    fn refused(&self, _serial: u64) -> Signing<'_, bool> {
        Box::pin(async { Ok(false) })
    }

    /// Returns when a person has kept the key waiting for longer than a client should not know: `touch the key`. `None`:
    /// no person ever has to do anything, so nobody need look out for it. What waits goes on all the same.
    fn person(&self) -> Option<Pin<Box<dyn Future<Output = SignError> + Send + '_>>> {
        None
    }

    /// How often the key itself was found to be gone, a card that was pulled out: connections that were made before are
    /// closed then, whether it is back or not.
    fn losses(&self) -> u64 {
        0
    }

    /// How many signatures the key has made: for the metrics.
    fn signatures(&self) -> u64 {
        0
    }

    /// What it has to be told before it can do anything, as a question to a person: `PIN of the token "blue"`. The
    /// plugin has the terminal, the daemon has the key; so the plugin asks, and passes the answer on.
    fn wants(&self) -> Option<String> {
        None
    }

    /// The answer to that.
    fn unlock(&self, _answer: Secret) -> Signing<'_, ()> {
        Box::pin(async { Err(SignError::Misconfigured { message: "there is nothing to unlock".into() }) })
    }

    /// The proxy ends, and nothing is signed any more: lets go of what would outlive the process, such as the session of
    /// a token. It may block for a moment.
    fn close(&self) {}
}

/// What happens to a request's body before its head is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRule {
    /// It is passed on as it comes.
    Stream,
    /// It is read whole and hashed with SHA-256. A larger one is refused with `413`.
    Hash {
        /// In bytes.
        max: usize,
    },
    /// It is read whole and hashed; a larger one is passed on unhashed.
    HashUpTo {
        /// In bytes.
        max: usize,
    },
}

/// What is known about the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyDigest {
    /// Nothing: it streams by.
    Unknown,
    /// Its SHA-256.
    Sha256([u8; 32]),
}

/// Why a request could not be authorized, by who must act.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// A person: touch the key, plug in the card, log in again.
    #[error("{message}")]
    Person {
        /// What to do.
        message: String,
    },
    /// Nobody has to: the key or the credential is out of reach for now.
    #[error("{message}")]
    Unavailable {
        /// What is out of reach.
        message: String,
    },
    /// Whoever configured it.
    #[error("{message}")]
    Misconfigured {
        /// What is wrong.
        message: String,
    },
}
