//! Access tokens, and how programs that no person sits at get them.
//!
//! **The path:** something that proves who we are (a key that signs an assertion, a token of the machine's or the CI's) →
//! a token endpoint takes it → an [`AccessToken`], which says how long it is good → kept for the next run, if it can be
//! had only by asking far away.
//!
//! **Three names to know:** [`AccessToken`], [`Error`], [`id_token`].

mod answer;
mod error;
mod id_token;
mod jws;
mod keep;

use std::io::ErrorKind;
use std::path::Path;

use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_api::plugin::Failure;
use jiff::Timestamp;
use zeroize::Zeroizing;

pub(crate) use self::answer::{granted, refused};
pub use self::error::Error;
pub use self::id_token::{id_token, is_offered};
pub(crate) use self::jws::{Algorithm, RsaKey};
pub(crate) use self::keep::Kept;

/// A bearer token and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessToken {
    /// What is shown.
    pub token: Secret,
    /// When it is no longer good. `None`: nobody says.
    pub expires: Option<Timestamp>,
}

impl AccessToken {
    /// Good until `expires`, or until the end that the token itself names if that is sooner.
    pub fn new(token: impl Into<Secret>, expires: Option<Timestamp>) -> Self {
        let token = token.into();
        let expires = expires.into_iter().chain(credlet_api::oidc::expiry(&token)).min();
        Self { token, expires }
    }

    /// As a Kubernetes client takes it.
    pub fn status(self) -> ExecCredentialStatus {
        let status = ExecCredentialStatus::token(self.token);
        match self.expires {
            Some(at) => status.expiring(at),
            None => status,
        }
    }

    /// Refuses what is over. `what` it is, for the error.
    ///
    /// # Errors
    /// When it has expired.
    pub fn current(self, what: &str, now: Timestamp) -> Result<Self, Error> {
        match self.expires {
            Some(at) if at <= now => Err(Error::Expired { what: what.to_owned(), at }),
            _ => Ok(self),
        }
    }
}

/// As a plugin tells it.
pub fn failure(error: Error) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    hint.into_iter().fold(failure, Failure::hint)
}

/// The text of a small file that may hold a secret. `what` it is, for the error.
pub(crate) fn file(path: &Path, what: &str) -> Result<Zeroizing<String>, Error> {
    let bytes = bytes(path, what)?;
    let text = std::str::from_utf8(&bytes).map(|text| Zeroizing::new(text.to_owned()));
    text.map_err(|_| Error::File { what: what.to_owned(), path: path.to_owned(), reason: ErrorKind::InvalidData })
}

/// The content of a small file that may hold a secret, and may be no text.
pub(crate) fn bytes(path: &Path, what: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
    /// A service account's key has 2 kB.
    const LARGEST: u64 = 1 << 20;
    let failed = |reason: ErrorKind| Error::File { what: what.to_owned(), path: path.to_owned(), reason };
    // A pipe in its place would keep us waiting, and a device would not end.
    let about = std::fs::metadata(path).map_err(|error| failed(error.kind()))?;
    if about.len() > LARGEST || !about.is_file() {
        return Err(failed(if about.is_file() { ErrorKind::FileTooLarge } else { ErrorKind::InvalidInput }));
    }
    std::fs::read(path).map(Zeroizing::new).map_err(|error| failed(error.kind()))
}

/// The token in a file: one line, without blanks around it.
pub(crate) fn token_file(path: &Path, what: &str) -> Result<Secret, Error> {
    let text = file(path, what)?;
    let token = text.trim();
    let wrong = |reason| Err(Error::Content { what: what.to_owned(), path: path.to_owned(), reason });
    match token {
        "" => wrong("is empty"),
        _ if token.chars().any(|c| c.is_whitespace() || c.is_control()) => wrong("holds more than a token"),
        token => Ok(Secret::new(token)),
    }
}
