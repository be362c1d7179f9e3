use std::path::PathBuf;

use credlet_proxy::sign::SignError;
use cryptoki::error::{Error as Cryptoki, RvError};

use super::{Uri, UriError};

/// Why there is no signature, in the order of who must act: whoever wrote the configuration, the person with the token,
/// the token.
///
/// None of them holds a PIN.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Pkcs11Error {
    /// The address of the key is wrong.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// No library is named.
    #[error("which PKCS#11 library talks to the token?")]
    NoModule,
    /// The library may not be loaded.
    #[error("the PKCS#11 library {} {reason}", path.display())]
    Module {
        /// Which.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The certificate is wrong.
    #[error("the certificate of the key {reason}")]
    Certificate {
        /// What is wrong with it.
        reason: String,
    },
    /// The key cannot be used for TLS.
    #[error("the key {reason}")]
    Key {
        /// Why not.
        reason: String,
    },
    /// The file with the PIN is wrong.
    #[error("the PIN's file {} {reason}", path.display())]
    PinFile {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such token.
    #[error("no token is {uri}")]
    NoToken {
        /// What was looked for.
        uri: String,
        /// Those that there are.
        others: Vec<String>,
    },
    /// There are several.
    #[error("{count} {what} are {uri}")]
    Several {
        /// Tokens or keys.
        what: &'static str,
        /// How many.
        count: usize,
        /// What was looked for.
        uri: String,
    },
    /// The token is there, the key is not.
    #[error("the token `{token}` has no private key that is {uri}")]
    NoKey {
        /// The token.
        token: String,
        /// What was looked for.
        uri: String,
    },
    /// A PIN is needed.
    #[error("the token `{token}` wants a PIN, and there is none")]
    NoPin {
        /// The token.
        token: String,
    },
    /// The PIN was refused. It is not tried again.
    #[error("the token `{token}` {reason}")]
    Pin {
        /// The token.
        token: String,
        /// What it said.
        reason: &'static str,
    },
    /// Another token than before.
    #[error("another token or certificate is in the place of `{token}`")]
    Other {
        /// The one of before.
        token: String,
    },
    /// The token does not answer.
    #[error("the token has not answered within {seconds} s; if it blinks, touch it")]
    Slow {
        /// How long it had.
        seconds: u64,
    },
    /// The library says no.
    #[error("{doing} failed: {said}")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// The library's word for it.
        said: String,
        /// Whether a new session may help.
        lost: bool,
    },
}

impl Pkcs11Error {
    /// What the library said while doing something. Its constants are shown by name: the crate's texts for them are
    /// paragraphs of the standard.
    pub(super) fn failed(doing: &'static str, error: &Cryptoki) -> Self {
        let (said, lost) = match error {
            Cryptoki::Pkcs11(code, _) => (format!("{code:?}"), is_lost(*code)),
            Cryptoki::LibraryLoading(_) => ("the library cannot be loaded".to_owned(), false),
            Cryptoki::MissingSymbol(_) => ("it is no PKCS#11 library".to_owned(), false),
            _ => ("the library answers nonsense".to_owned(), false),
        };
        Self::Failed { doing, said, lost }
    }

    pub(super) fn no_key(token: &str, uri: &Uri) -> Self {
        Self::NoKey { token: token.to_owned(), uri: uri.to_string() }
    }

    /// Whether what was opened is of no use any more.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Failed { lost: true, .. })
    }

    /// What to do about it.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoModule => "name it with --module, or as `module-path` in the URI".to_owned(),
            Self::Uri(UriError::Pin) => {
                "put it into a file of your own and name that with --pin-file or `pin-source`, or be asked for it"
                    .into()
            }
            Self::NoToken { others, .. } if !others.is_empty() => format!("there are: {}", others.join(", ")),
            Self::NoToken { .. } => "no token is plugged in, or this library does not know it".into(),
            Self::Several { .. } => "say more in the URI: `serial=` of the token, `id=` or `object=` of the key".into(),
            Self::NoPin { .. } => "run it at a terminal once, or name the PIN's file with --pin-file".into(),
            Self::Pin { .. } => {
                "it was tried once and will not be tried again by itself: tokens lock themselves".into()
            }
            _ => return Vec::new(),
        };
        vec![hint]
    }
}

/// By what the standard says of them, and by what libraries answer in fact when a card was pulled out.
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
            // A signature that was begun and never ended: by this session, so another one can.
            | Rv::OperationActive
            | Rv::GeneralError
            | Rv::FunctionFailed
    )
}

impl From<Pkcs11Error> for SignError {
    fn from(error: Pkcs11Error) -> Self {
        use Pkcs11Error as E;
        let message = error.to_string();
        match error {
            E::NoToken { .. } | E::NoPin { .. } | E::Pin { .. } | E::Other { .. } | E::Slow { .. } => {
                Self::Person { message }
            }
            E::Failed { .. } => Self::Unavailable { message },
            _ => Self::Misconfigured { message },
        }
    }
}
