use std::io;
use std::path::PathBuf;

use http::StatusCode;
use jiff::Timestamp;

use crate::web::WebError;

/// Why there is no access token. The variants stand in the order of who must act: whoever wrote the configuration, the
/// person who has to log in, the account's administrator, the network.
///
/// None of them holds a key, a token, or anything that a server has sent but codes that are known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing works without it.
    #[error("{what} is missing")]
    Missing {
        /// What.
        what: String,
        /// How it is said.
        hint: &'static str,
    },
    /// A flag, a variable or a member of a file says something that cannot be.
    #[error("{place} {reason}")]
    Config {
        /// Which.
        place: String,
        /// What is wrong with it.
        reason: String,
        /// What can be done instead.
        hint: Option<&'static str>,
    },
    /// A file cannot be read.
    #[error("{what} cannot be read from {} ({reason})", path.display())]
    File {
        /// What it is.
        what: String,
        /// Which file.
        path: PathBuf,
        /// Why not.
        reason: io::ErrorKind,
    },
    /// A file holds something else.
    #[error("{what} in {} {reason}", path.display())]
    Content {
        /// What it should be.
        what: String,
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Nothing was found anywhere.
    #[error("there are no credentials of {cloud}: {}", tried.join("; "))]
    NoCredentials {
        /// Whose.
        cloud: &'static str,
        /// Where was looked, with what was found.
        tried: Vec<String>,
        /// What can be done.
        hint: &'static str,
    },
    /// It is over.
    #[error("{what} expired at {at}")]
    Expired {
        /// What.
        what: String,
        /// When.
        at: Timestamp,
    },
    /// A server said no.
    #[error("{host} refused {what}: {status}{}", code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Refused {
        /// Who.
        host: String,
        /// What was asked for.
        what: String,
        /// How.
        status: StatusCode,
        /// The reason, if it is one that is known.
        code: Option<String>,
        /// What can be done.
        hint: Option<&'static str>,
    },
    /// There was no answer, or none that makes sense.
    #[error("{what} cannot be had")]
    Web {
        /// What was asked for.
        what: String,
        /// Why not.
        #[source]
        source: WebError,
    },
    /// Not by us.
    #[error("this machine cannot sign with {what}")]
    Sign {
        /// The key.
        what: String,
    },
}

impl Error {
    /// What the person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing { hint, .. } | Self::NoCredentials { hint, .. } => Some(hint),
            Self::Config { hint, .. } | Self::Refused { hint, .. } => *hint,
            Self::Expired { .. } => {
                Some("get a new one where it came from; if it is new, see whether this machine's clock is right")
            }
            Self::Web { source, .. } => source.hint(),
            _ => None,
        }
    }

    /// Something that cannot be, without advice.
    pub(crate) fn config(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Config { place: place.into(), reason: reason.into(), hint: None }
    }

    /// The same with advice.
    pub(crate) fn advise(self, advice: &'static str) -> Self {
        match self {
            Self::Config { place, reason, .. } => Self::Config { place, reason, hint: Some(advice) },
            other => other,
        }
    }
}
