use std::path::PathBuf;

use credlet_platform::fs::ReadError;
use http::StatusCode;
use jiff::Timestamp;

use credlet_http::fetch::FetchError;

/// Why an access token is unavailable. The variants are ordered by the party that has to act: author of the configuration, user
/// (login), account administrator, network.
///
/// No variant contains a key or a token. Of a server's response only known error codes are included.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// A required setting is missing.
    #[error("missing {what}")]
    MissingSetting {
        /// Description of the setting, such as `environment variable X`.
        what: String,
        /// How to set it.
        hint: &'static str,
    },
    /// A flag, an environment variable or a value in a file is invalid.
    #[error("invalid {setting}: {reason}")]
    InvalidSetting {
        /// Name of the flag, variable or field.
        setting: String,
        /// What is wrong with its value.
        reason: String,
        /// How to correct it.
        hint: Option<&'static str>,
    },
    /// A file cannot be read.
    #[error("failed to read {what}: {} {reason}", path.display())]
    ReadFile {
        /// Expected content of the file.
        what: String,
        /// Path of the file.
        path: PathBuf,
        /// Why it cannot be read.
        reason: ReadError,
    },
    /// The content of a file is invalid.
    #[error("invalid {what} in {}: {reason}", path.display())]
    InvalidFile {
        /// Expected content of the file.
        what: String,
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the content.
        reason: &'static str,
    },
    /// No source has credentials.
    #[error("no {cloud} credentials found: {}", tried.join("; "))]
    NoCredentials {
        /// Name of the cloud.
        cloud: &'static str,
        /// Why each source has none.
        tried: Vec<String>,
        /// How to provide credentials.
        hint: &'static str,
    },
    /// A token has expired.
    #[error("{what} expired at {at}")]
    Expired {
        /// Description of the token.
        what: String,
        /// Time at which it expired.
        at: Timestamp,
    },
    /// A server rejected the request.
    #[error("{host} rejected the request for {what}: {status}{}", code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Rejected {
        /// `host:port` of the server.
        host: String,
        /// The requested object.
        what: String,
        /// HTTP status of the response.
        status: StatusCode,
        /// Error code of the response, if it is a known one.
        code: Option<String>,
        /// How to correct the request.
        hint: Option<&'static str>,
    },
    /// The request failed, or the response is invalid.
    #[error("failed to fetch {what}")]
    Request {
        /// The requested object.
        what: String,
        /// Error of the connection or of the response.
        #[source]
        source: FetchError,
    },
    /// The key cannot sign, or the system provides no random numbers.
    #[error("failed to sign with {what}")]
    Sign {
        /// Description of the key.
        what: String,
    },
}

impl TokenError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::MissingSetting { hint, .. } | Self::NoCredentials { hint, .. } => Some(hint),
            Self::InvalidSetting { hint, .. } | Self::Rejected { hint, .. } => *hint,
            Self::Expired { .. } => Some("renew the token at its source; if it is new, check the local clock"),
            Self::Request { source, .. } => source.hint(),
            _ => None,
        }
    }

    /// Creates an [`InvalidSetting`](Self::InvalidSetting) without a hint.
    pub(crate) fn invalid_setting(setting: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidSetting { setting: setting.into(), reason: reason.into(), hint: None }
    }

    /// Sets the hint of an [`InvalidSetting`](Self::InvalidSetting).
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        match self {
            Self::InvalidSetting { setting, reason, .. } => Self::InvalidSetting { setting, reason, hint: Some(hint) },
            other => other,
        }
    }
}
