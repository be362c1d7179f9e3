use std::path::PathBuf;
use std::time::Duration;

use credlet_plugin::Failure;
use jiff::Timestamp;

use super::id_token::IdTokenError;
use super::{IssuerRequestError, OidcEndpoint};

/// A token could not be obtained. In the order of the party that must act: the author of the kubeconfig, the user, the network,
/// the issuer's operator.
///
/// No variant contains a token, a code, a client secret, or other content of the issuer's responses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// A required flag is missing.
    #[error("`{0}` is missing")]
    MissingFlag(&'static str),
    /// A flag has an invalid value.
    #[error("invalid `{flag}`: {reason}")]
    InvalidFlag {
        /// Name of the flag.
        flag: &'static str,
        /// Why the value is invalid.
        reason: &'static str,
    },
    /// A file that a flag names cannot be read.
    #[error("failed to read the file of `{flag}` ({})", path.display())]
    ReadFile {
        /// Name of the flag.
        flag: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: std::io::Error,
    },
    /// No port is free on every address of the redirect host.
    #[error("failed to listen for the browser on {tried}")]
    Listen {
        /// The address that failed, for each port.
        tried: String,
        /// The error of the last one.
        #[source]
        source: std::io::Error,
    },
    /// The issuer does not know this client or rejects its secret.
    #[error("the issuer {host} rejected the client")]
    ClientRejected {
        /// Host of the issuer.
        host: String,
    },
    /// The issuer lacks an endpoint that the grant type needs.
    #[error("unsupported by the issuer {issuer}: it has no {what}")]
    NotSupported {
        /// URL of the issuer.
        issuer: String,
        /// The missing endpoint.
        what: OidcEndpoint,
    },
    /// The user or the issuer denied the login.
    #[error("the login was refused at the issuer{}", .code.map(|code| format!(" ({code})")).unwrap_or_default())]
    Denied {
        /// The issuer's error code, if a specification defines it.
        code: Option<&'static str>,
    },
    /// No callback of this login arrived in time.
    #[error("the login timed out after {} s", after.as_secs())]
    LoginTimedOut {
        /// The configured timeout.
        after: Duration,
    },
    /// The user did not enter the device code in time.
    #[error("the device code expired before it was entered")]
    CodeExpired,
    /// The last login failed, and its cooldown has not passed.
    #[error("the last login failed ({why}), a browser cannot be opened again before {until}")]
    LoginCooldown {
        /// The error of the last login.
        why: String,
        /// End of the cooldown.
        until: Timestamp,
    },
    /// The login of another process, which this one waited for, failed.
    #[error("the login of another process failed ({why})")]
    SharedFailure {
        /// The error of that login.
        why: String,
    },
    /// Another process held the login's lock for too long.
    #[error("{0}")]
    LockTimedOut(String),
    /// The browser's redirect does not belong to this login.
    #[error("invalid redirect of the browser: {0}")]
    InvalidCallback(&'static str),
    /// A request to the issuer failed.
    #[error(transparent)]
    Request(#[from] IssuerRequestError),
    /// The discovery document names another issuer.
    #[error("issuer mismatch: the issuer at {expected} calls itself `{found}`")]
    IssuerMismatch {
        /// The configured issuer.
        expected: String,
        /// The issuer in the discovery document.
        found: String,
    },
    /// The issuer rejected an authorization code or refresh token.
    #[error("the issuer {host} rejected the {what}: it is expired, was already used, or has been revoked")]
    GrantRejected {
        /// Host of the issuer.
        host: String,
        /// The rejected grant.
        what: &'static str,
    },
    /// A successful response lacks the token.
    #[error("missing {what} in the response of the issuer {host}")]
    MissingToken {
        /// Host of the issuer.
        host: String,
        /// Name of the missing field.
        what: &'static str,
    },
    /// The ID token failed verification.
    #[error("invalid ID token")]
    IdToken(#[from] IdTokenError),
    /// No login is stored for these settings.
    #[error("not logged in with these settings")]
    NotLoggedIn,
    /// The random number generator failed.
    #[error("failed to generate random numbers")]
    RandomUnavailable,
}

impl OidcError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Listen { .. } => {
                "stop the program that uses the port, pass another port with --listen-address (it must be registered with \
                 the issuer), or use --grant-type=device-code"
            }
            Self::ClientRejected { .. } => {
                "correct --oidc-client-id and --oidc-client-secret, or ask the issuer's operator to allow the client this grant"
            }
            Self::NotSupported { .. } => "choose another --grant-type",
            Self::LoginCooldown { .. } | Self::SharedFailure { .. } => {
                "run `credlet plugin oidc login` with the same flags in a terminal"
            }
            Self::LoginTimedOut { .. } => {
                "run the command again and log in in the browser, or use --grant-type=device-code"
            }
            Self::Denied { .. } | Self::CodeExpired | Self::GrantRejected { .. } => "log in again",
            Self::InvalidCallback(_) => "log in again, in one browser window only",
            Self::IssuerMismatch { .. } => "correct --oidc-issuer-url: it must match the issuer's own spelling exactly",
            Self::MissingToken { what: "id_token", .. } => {
                "ask the issuer's operator to allow the scope `openid` for this client"
            }
            Self::Request(IssuerRequestError::InvalidResponse { .. }) => {
                "check whether a proxy or a captive portal has intercepted the request"
            }
            Self::Request(IssuerRequestError::NoResponse { source, .. }) => return source.hint(),
            Self::IdToken(error) => error.hint(),
            _ => return None,
        })
    }

    /// Returns the error and its sources in one line.
    pub fn to_chained_string(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// Converts an error to the failure that a plugin reports.
pub fn plugin_failure(error: &OidcError) -> Failure {
    let failure = Failure::new(error.to_chained_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
