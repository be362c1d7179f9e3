use std::fmt;

use credlet_api::image::InvalidProviderResponse;
use credlet_exec::{LookupError, PolicyError, ProcessExit, RunError};

use crate::service_account::{AccountError, KeyPartTooLong};

/// Failed run of a provider.
///
/// `Display` is one clause; [`stderr`](Self::stderr) is the output of the provider. No variant holds a secret: foreign text is
/// redacted and escaped.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The plugin policy does not allow the binary.
    #[error("{0}")]
    NotAllowed(PolicyError),
    /// The binary is missing or not executable.
    #[error("{0}")]
    NotInstalled(LookupError),
    /// The process could not be started.
    #[error("failed to start `{provider}`: {reason}")]
    NotStarted {
        /// Name of the provider.
        provider: String,
        /// Error of the operating system, or the exceeded limit.
        reason: RunError,
    },
    /// The provider exited with an error.
    #[error("`{provider}` {ended}{}", MessageSuffix(message))]
    Failed {
        /// Name of the provider.
        provider: String,
        /// How the process exited.
        ended: ProcessExit,
        /// Last line of its standard error; may be empty.
        message: String,
        /// End of its standard error.
        stderr: String,
    },
    /// The provider was killed because of a timeout or too much output.
    #[error("`{provider}` was killed: {reason}")]
    Killed {
        /// Name of the provider.
        provider: String,
        /// The exceeded limit.
        reason: RunError,
        /// End of its standard error.
        stderr: String,
    },
    /// The provider printed an invalid response.
    #[error("invalid response of `{provider}`: {reason}")]
    InvalidResponse {
        /// Name of the provider.
        provider: String,
        /// Rule of the kubelet that it violates.
        reason: InvalidProviderResponse,
        /// End of its standard error.
        stderr: String,
    },
    /// The password is the token of one pod, but would be cached for all pods of the account.
    #[error(
        "invalid response of `{provider}`: the password is the service account token, which is not allowed without \
         `cacheType: Token`"
    )]
    EchoedToken {
        /// Name of the provider.
        provider: String,
    },
    /// Service account or token are not available.
    #[error("failed to run `{provider}`: {what}: {reason}")]
    Account {
        /// Name of the provider.
        provider: String,
        /// The failed operation.
        what: &'static str,
        /// Why the operation failed.
        reason: AccountError,
    },
    /// An image name or annotation is too long for a cache key.
    #[error("failed to run `{provider}`: {reason}")]
    TooLong {
        /// Name of the provider.
        provider: String,
        /// The limit is 65,535 bytes.
        reason: KeyPartTooLong,
    },
    /// The async runtime was shut down during the run.
    #[error("failed to run `{provider}`: the async runtime was shut down")]
    Abandoned {
        /// Name of the provider.
        provider: String,
    },
}

impl ProviderError {
    /// Returns the end of the provider's standard error.
    pub fn stderr(&self) -> &str {
        match self {
            Self::Failed { stderr, .. } | Self::Killed { stderr, .. } | Self::InvalidResponse { stderr, .. } => stderr,
            _ => "",
        }
    }

    /// Returns hints for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotAllowed(error) => return error.hints(),
            Self::NotInstalled(LookupError::NotExecutable { path }) => {
                format!("`chmod +x {}` if you trust it", path.display())
            }
            Self::NotStarted { reason: RunError::Spawn { reason }, .. } if reason.is_not_found() => {
                "the interpreter or the C library that the binary was built for is missing".to_owned()
            }
            Self::Killed { reason: RunError::TimedOut { .. }, .. } => {
                "run it by hand with `credlet image run-plugin` to see what it waits for".to_owned()
            }
            Self::InvalidResponse { reason: InvalidProviderResponse::VersionMismatch { received, .. }, .. }
                if !received.is_empty() =>
            {
                format!("set `apiVersion: {received}` for this provider, or update it")
            }
            Self::EchoedToken { .. } => "set `tokenAttributes.cacheType: Token` for this provider".to_owned(),
            _ => return Vec::new(),
        };
        vec![hint]
    }

    /// Returns the value of the metric label `outcome`.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) => "not_allowed",
            Self::NotInstalled(_) => "not_installed",
            Self::NotStarted { .. } => "not_started",
            Self::Failed { .. } => "failed",
            Self::Killed { reason: RunError::TimedOut { .. }, .. } => "timed_out",
            Self::Killed { .. } => "too_much_output",
            Self::InvalidResponse { .. } => "bad_answer",
            Self::EchoedToken { .. } => "echoed_token",
            Self::Account { .. } => "service_account",
            Self::TooLong { .. } => "too_long",
            Self::Abandoned { .. } => "abandoned",
        }
    }
}

/// `: text`, or nothing.
struct MessageSuffix<'a>(&'a str);

impl fmt::Display for MessageSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}
