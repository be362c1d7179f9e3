//! Signers, which authenticate requests with a client certificate, headers or a signature.

mod exec;
mod file;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod headers;
#[cfg(feature = "pkcs11")]
pub mod pkcs11;
#[cfg(feature = "sigv4")]
pub mod sigv4;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use credlet_api::Secret;
use credlet_http::HttpCredential;
use http::request::Parts;

pub use self::exec::ExecSigner;
pub use self::file::FileSigner;
pub use self::headers::HeaderSigner;

/// Future returned by a [`Signer`].
pub type SignFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SignError>> + Send + 'a>>;

/// Authenticates requests to the API server.
pub trait Signer: fmt::Debug + Send + Sync {
    /// Returns the `Authorization` header and the client certificate for requests, both optional. The certificate's key
    /// may be in hardware. Called for each request, so it must be cheap while nothing changes. A new credential has a
    /// higher generation.
    fn credential(&self) -> SignFuture<'_, HttpCredential>;

    /// How the body of a request with this head is processed before [`sign`](Self::sign).
    fn body(&self, _head: &Parts) -> BodyDigestRule {
        BodyDigestRule::Stream
    }

    /// Adds headers that depend on the request. Path, query and headers are those that the API server will receive,
    /// without hop-by-hop headers. The URI has the API server's authority. There is no `Host` header: a signer that
    /// includes the host takes it from the URI.
    fn sign<'a>(&'a self, _head: &'a mut Parts, _body: BodyDigest) -> SignFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Called with the headers of every response of the API server. A signer can detect clock skew by `Date`.
    fn on_response(&self, _headers: &http::HeaderMap) {}

    /// Called when the API server responds `401` to a request with this generation. Returns true if
    /// [`credential`](Self::credential) may return a different credential, so that a retry is useful.
    fn on_unauthorized(&self, _generation: u64) -> SignFuture<'_, bool> {
        Box::pin(async { Ok(false) })
    }

    /// Completes when the user has not reacted for so long that the client should be notified, with a message such as
    /// `touch the key`. `None` if the signer never needs user action. Pending operations continue.
    fn user_action_required(&self) -> Option<Pin<Box<dyn Future<Output = SignError> + Send + '_>>> {
        None
    }

    /// Number of times that the key was removed, such as a smart card. Connections made before a removal are closed,
    /// even if the key is available again.
    fn key_losses(&self) -> u64 {
        0
    }

    /// Number of signatures made with the key, for metrics.
    fn signature_count(&self) -> u64 {
        0
    }

    /// Prompt for the secret that the signer needs before it can sign: `PIN of the token "blue"`. The daemon holds the
    /// key but has no terminal, so the plugin prompts and sends the input to the daemon.
    fn unlock_prompt(&self) -> Option<String> {
        None
    }

    /// Unlocks the signer with the response to [`unlock_prompt`](Self::unlock_prompt).
    fn unlock(&self, _answer: Secret) -> SignFuture<'_, ()> {
        Box::pin(async { Err(SignError::Misconfigured { message: "this signer cannot be unlocked".into() }) })
    }

    /// Called when the proxy shuts down, after the last signature. Releases resources that would outlive the process,
    /// such as token sessions. It may block briefly.
    fn close(&self) {}
}

/// How the body is processed before the head is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyDigestRule {
    /// Streamed without a digest.
    Stream,
    /// Buffered and hashed with SHA-256. A larger body is rejected with `413`.
    Hash {
        /// Limit in bytes.
        max: usize,
    },
    /// Buffered and hashed. A larger body is streamed without a digest.
    HashUpTo {
        /// Limit in bytes.
        max: usize,
    },
}

/// Digest of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyDigest {
    /// The body is streamed.
    Unknown,
    /// SHA-256 of the body.
    Sha256([u8; 32]),
}

/// A request that could not be authenticated.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The user must act: touch the key, insert the card, log in again.
    #[error("{message}")]
    UserActionRequired {
        /// What the user must do.
        message: String,
    },
    /// The key or credential is temporarily unavailable.
    #[error("{message}")]
    Unavailable {
        /// What is unavailable.
        message: String,
    },
    /// The configuration is invalid.
    #[error("{message}")]
    Misconfigured {
        /// What is invalid.
        message: String,
    },
}
