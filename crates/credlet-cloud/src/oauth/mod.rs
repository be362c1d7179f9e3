//! OAuth 2.0 access tokens of workloads: the parts that Azure, Google, OCI and CI systems share.
//!
//! A workload proves its identity to a token endpoint, with an assertion that its key signs (RFC 7523) or with an
//! [`IdentityToken`] of its platform or CI system, and receives an [`AccessToken`]. Tokens that require a remote request are
//! cached on disk.

mod ci_id_token;
mod error;
mod identity_token;
mod jws;
mod token_cache;
mod token_response;

use std::path::Path;

use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_platform::fs::read_bounded;
use credlet_plugin::Failure;
use jiff::Timestamp;
use zeroize::Zeroizing;

pub use self::ci_id_token::{ci_id_token_available, request_ci_id_token};
pub use self::error::TokenError;
pub use self::identity_token::IdentityToken;
use self::identity_token::TOKEN_LIMIT;
pub(crate) use self::jws::{JwsAlgorithm, RsaSigningKey};
pub(crate) use self::token_cache::AccessTokenCache;
pub(crate) use self::token_response::{parse_token_response, rejected};

/// A bearer token and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessToken {
    /// The token, without `Bearer`.
    pub token: Secret,
    /// Expiry. `None`: unknown.
    pub expires: Option<Timestamp>,
}

impl AccessToken {
    /// Creates a token that expires at `expires`, or at its own `exp` claim if it is a JWT and that is earlier.
    pub fn new(token: impl Into<Secret>, expires: Option<Timestamp>) -> Self {
        let token = token.into();
        let expires = expires.into_iter().chain(credlet_api::oidc::jwt_expiry(&token)).min();
        Self { token, expires }
    }

    /// Limits the expiry to that of the token that this one was obtained with.
    #[must_use]
    pub fn limit_expiry(self, end: Option<Timestamp>) -> Self {
        Self { expires: self.expires.into_iter().chain(end).min(), ..self }
    }

    /// Converts to the credential that a Kubernetes client receives.
    pub fn into_status(self) -> ExecCredentialStatus {
        let status = ExecCredentialStatus::token(self.token);
        match self.expires {
            Some(at) => status.with_expiration(at),
            None => status,
        }
    }

    /// Returns the token unless it has expired. `what` describes it in the error.
    ///
    /// # Errors
    /// When the token has expired.
    pub fn ensure_valid(self, what: &str, now: Timestamp) -> Result<Self, TokenError> {
        match self.expires {
            Some(at) if at <= now => Err(TokenError::Expired { what: what.to_owned(), at }),
            _ => Ok(self),
        }
    }
}

/// Converts to the error of a plugin, with its hint.
pub fn into_failure(error: TokenError) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    hint.into_iter().fold(failure, Failure::hint)
}

/// Maximum size of a key, certificate or configuration file in bytes. A service account key has 2 kB.
pub(crate) const FILE_LIMIT: u64 = 1 << 20;

/// Reads a regular UTF-8 file that may contain a secret. `what` describes it in errors.
pub(crate) fn read_text_file(path: &Path, what: &str, limit: u64) -> Result<Zeroizing<String>, TokenError> {
    let bytes = read_file(path, what, limit)?;
    let text = std::str::from_utf8(&bytes).map(|text| Zeroizing::new(text.to_owned()));
    text.map_err(|_| TokenError::InvalidFile { what: what.to_owned(), path: path.to_owned(), reason: "not UTF-8 text" })
}

/// Reads a regular file that may contain a secret. `what` describes it in errors.
pub(crate) fn read_file(path: &Path, what: &str, limit: u64) -> Result<Zeroizing<Vec<u8>>, TokenError> {
    read_bounded(path, limit).map_err(|reason| TokenError::ReadFile {
        what: what.to_owned(),
        path: path.to_owned(),
        reason,
    })
}

/// Reads a secret from a file: one line, without surrounding whitespace. Not for tokens that are sent to an endpoint which the
/// environment can name; see [`IdentityToken::from_file`].
pub(crate) fn read_token_file(path: &Path, what: &str) -> Result<Secret, TokenError> {
    let text = read_text_file(path, what, TOKEN_LIMIT)?;
    let token = text.trim();
    let invalid = |reason| Err(TokenError::InvalidFile { what: what.to_owned(), path: path.to_owned(), reason });
    match token {
        "" => invalid("empty"),
        _ if token.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            invalid("contains whitespace or control characters")
        }
        token => Ok(Secret::new(token)),
    }
}
