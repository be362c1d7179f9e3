use std::path::PathBuf;

use crate::sign::SignError;
use cryptoki::error::{Error as Cryptoki, RvError};

use super::{Pkcs11Uri, Pkcs11UriError};

/// Failure to open a token or to sign with it. No variant contains a PIN.
///
/// The variants are ordered by the party that must act: the author of the configuration, the user, the token.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Pkcs11Error {
    /// The URI of the key is invalid.
    #[error(transparent)]
    InvalidUri(#[from] Pkcs11UriError),
    /// Neither the command line nor the URI names a library.
    #[error("missing PKCS#11 library")]
    NoModule,
    /// The library may not be loaded.
    #[error("cannot load PKCS#11 library {}: {reason}", path.display())]
    Module {
        /// Path or name of the library.
        path: PathBuf,
        /// Why it may not or cannot be loaded.
        reason: String,
    },
    /// The certificate is missing or does not belong to the key.
    #[error("invalid certificate of the key: it {reason}")]
    Certificate {
        /// The problem, as a predicate.
        reason: String,
    },
    /// The key cannot be used for TLS.
    #[error("unusable key: it {reason}")]
    Key {
        /// The problem, as a predicate.
        reason: String,
    },
    /// The file with the PIN is unusable.
    #[error("invalid PIN file {}: {reason}", path.display())]
    PinFile {
        /// Path of the file.
        path: PathBuf,
        /// Why the file cannot be used, without its content.
        reason: String,
    },
    /// No token matches the URI.
    #[error("token not found: no token matches {uri}")]
    NoToken {
        /// The URI without the PIN source.
        uri: String,
        /// Labels of the available tokens.
        others: Vec<String>,
    },
    /// Several tokens or keys match the URI.
    #[error("ambiguous URI: {count} {what} match {uri}")]
    Several {
        /// `tokens` or `keys`.
        what: &'static str,
        /// Number of matches.
        count: usize,
        /// The URI without the PIN source.
        uri: String,
    },
    /// The token has no such key.
    #[error("key not found: the token `{token}` has no private key that matches {uri}")]
    NoKey {
        /// Label of the token.
        token: String,
        /// The URI without the PIN source.
        uri: String,
    },
    /// The token requires a PIN.
    #[error("missing PIN of the token `{token}`")]
    NoPin {
        /// Label of the token.
        token: String,
    },
    /// The token rejected the PIN, or a PIN must not be tried. The PIN is not retried.
    #[error("PIN rejected: the token `{token}` {reason}")]
    Pin {
        /// Label of the token.
        token: String,
        /// The problem, as a predicate.
        reason: &'static str,
    },
    /// The reopened token is another one, or has another certificate.
    #[error("unexpected token: `{token}` was replaced by another token or certificate")]
    Other {
        /// Label of the first token.
        token: String,
    },
    /// The token did not respond in time.
    #[error("token timed out after {seconds} s; touch it if it blinks")]
    Slow {
        /// The time limit.
        seconds: u64,
    },
    /// A call of the library failed.
    #[error("{doing} failed: {said}")]
    Failed {
        /// Operation, as the subject of the message.
        doing: &'static str,
        /// The error code of the library.
        said: String,
        /// Whether a new session may help.
        lost: bool,
        /// Whether another process that uses the token may be the cause.
        contention: bool,
    },
    /// Another proxy has the token open, and the token has no room for a second session.
    #[error("the token `{token}` is in use by another credlet proxy: {reason}")]
    Busy {
        /// Label of the token.
        token: String,
        /// The error of the last attempt.
        reason: String,
    },
}

impl Pkcs11Error {
    /// Returns the error of a failed call. Error codes are shown by name, because cryptoki's texts are paragraphs of the standard.
    pub(super) fn failed(doing: &'static str, error: &Cryptoki) -> Self {
        let (said, lost, contention) = match error {
            Cryptoki::Pkcs11(code, _) => (format!("{code:?}"), is_lost(*code), is_contention(*code)),
            Cryptoki::LibraryLoading(_) => ("cannot load the library".to_owned(), false, false),
            Cryptoki::MissingSymbol(_) => ("not a PKCS#11 library".to_owned(), false, false),
            _ => ("invalid response of the library".to_owned(), false, false),
        };
        Self::Failed { doing, said, lost, contention }
    }

    pub(super) fn no_key(token: &str, uri: &Pkcs11Uri) -> Self {
        Self::NoKey { token: token.to_owned(), uri: uri.to_string() }
    }

    /// Returns whether the session is lost and the token must be reopened.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Failed { lost: true, .. })
    }

    /// Returns whether the same call may succeed when no other process uses the token.
    pub(super) fn is_contention(&self) -> bool {
        matches!(self, Self::Failed { contention: true, .. })
    }

    /// Returns hints for the user.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoModule => "name it with --module, or as `module-path` in the URI".to_owned(),
            Self::InvalidUri(Pkcs11UriError::Pin) => {
                "store it in a file that only you can read and name that with --pin-file or `pin-source`, or enter it at the prompt"
                    .into()
            }
            Self::NoToken { others, .. } if !others.is_empty() => format!("available tokens: {}", others.join(", ")),
            Self::NoToken { .. } => "plug in the token, and check that the PKCS#11 library supports it".into(),
            Self::Several { .. } => "add `serial=` of the token, or `id=` or `object=` of the key to the URI".into(),
            Self::NoPin { .. } => "run the command in a terminal, or name a file with the PIN with --pin-file".into(),
            Self::Pin { .. } => {
                "check the PIN: it is not retried, because tokens lock themselves after a few wrong PINs".into()
            }
            Self::Busy { .. } => {
                "stop the other proxy with `credlet proxy stop`, or use the TPM through a resource manager (/dev/tpmrm0)"
                    .into()
            }
            _ => return Vec::new(),
        };
        vec![hint]
    }
}

/// Codes after which a session is unusable: by the standard, and those that libraries return after a card was removed.
fn is_lost(code: RvError) -> bool {
    use RvError as Rv;
    matches!(
        code,
        Rv::DeviceRemoved
            | Rv::DeviceError
            | Rv::TokenNotPresent
            | Rv::TokenNotRecognized
            | Rv::SessionHandleInvalid
            | Rv::SessionClosed
            | Rv::SlotIdInvalid
            | Rv::UserNotLoggedIn
            | Rv::KeyHandleInvalid
            | Rv::ObjectHandleInvalid
            | Rv::CryptokiNotInitialized
            // An unfinished signature blocks this session, but not a new one.
            | Rv::OperationActive
            | Rv::GeneralError
            | Rv::FunctionFailed
    )
}

/// Codes that libraries return when the token has no room for another session, or is locked by another process.
fn is_contention(code: RvError) -> bool {
    use RvError as Rv;
    matches!(
        code,
        Rv::GeneralError
            | Rv::FunctionFailed
            | Rv::DeviceError
            | Rv::DeviceMemory
            | Rv::HostMemory
            | Rv::SessionCount
            | Rv::UserAnotherAlreadyLoggedIn
            | Rv::UserTooManyTypes
    )
}

impl From<Pkcs11Error> for SignError {
    fn from(error: Pkcs11Error) -> Self {
        use Pkcs11Error as E;
        let message = error.to_string();
        match error {
            E::NoToken { .. } | E::NoPin { .. } | E::Pin { .. } | E::Other { .. } | E::Slow { .. } => {
                Self::UserActionRequired { message }
            }
            E::Failed { .. } | E::Busy { .. } => Self::Unavailable { message },
            _ => Self::Misconfigured { message },
        }
    }
}
