use std::fmt;

use credlet_api::image::AnswerError;
use credlet_core::{Ended, LookupError, RunError};

use crate::service_account::{AccountError, TooLong};

/// Why a provider gave no credentials, by who must act.
///
/// `Display` is one clause; [`stderr`](Self::stderr) is what the provider itself had to say. None of them holds a
/// secret: foreign text is scrubbed and made visible before it gets here.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The node's owner must install the binary, or repair it.
    #[error("{0}")]
    NotInstalled(LookupError),
    /// The provider could not be started at all.
    #[error("`{provider}` was not run: {reason}")]
    NotStarted {
        /// The provider.
        provider: String,
        /// Why not.
        reason: RunError,
    },
    /// The provider tried, and could not. What it wrote says who must act.
    #[error("`{provider}` {ended}{}", Said(message))]
    Failed {
        /// The provider.
        provider: String,
        /// How it ended.
        ended: Ended,
        /// The last of its own words, on one line; may be empty.
        message: String,
        /// The last of its standard error.
        stderr: String,
    },
    /// The provider did not finish in time, or would not stop printing.
    #[error("`{provider}` was ended: {reason}")]
    Ended {
        /// The provider.
        provider: String,
        /// Which limit it came to.
        reason: RunError,
        /// The last of its standard error.
        stderr: String,
    },
    /// The provider's author must act.
    #[error("`{provider}` is at fault: {reason}")]
    Nonsense {
        /// The provider.
        provider: String,
        /// What is wrong with its answer.
        reason: AnswerError,
        /// The last of its standard error.
        stderr: String,
    },
    /// A token is meant for one pod, and the answer would be remembered for all of the account's.
    #[error(
        "`{provider}` gave the service account's token back as the password, which needs `cacheType: Token` in its \
         configuration"
    )]
    EchoedToken {
        /// The provider.
        provider: String,
    },
    /// Whoever knows the service accounts must act.
    #[error("`{provider}` was not run: {what}: {reason}")]
    Account {
        /// The provider.
        provider: String,
        /// What was wanted.
        what: &'static str,
        /// In the words of whoever was asked.
        reason: AccountError,
    },
    /// An image or an annotation is beyond measure.
    #[error("`{provider}` was not run: {reason}")]
    TooLong {
        /// The provider.
        provider: String,
        /// What is too long.
        reason: TooLong,
    },
    /// The runtime in which the provider was run has been shut down.
    #[error("the run of `{provider}` was abandoned because its runtime was shut down")]
    Abandoned {
        /// The provider.
        provider: String,
    },
}

impl ProviderError {
    /// The last of what the provider wrote to standard error.
    pub fn stderr(&self) -> &str {
        match self {
            Self::Failed { stderr, .. } | Self::Ended { stderr, .. } | Self::Nonsense { stderr, .. } => stderr,
            _ => "",
        }
    }

    /// What the person reading this can do, one line each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotInstalled(LookupError::NotExecutable { path }) => {
                format!("`chmod +x {}` if you trust it", path.display())
            }
            Self::NotStarted { reason: RunError::Start { reason }, .. } if reason.is_not_found() => {
                "the interpreter or the C library that the binary was built for is missing".to_owned()
            }
            Self::Ended { reason: RunError::TimedOut { .. }, .. } => {
                "run it by hand with `credlet image run-plugin` to see what it waits for".to_owned()
            }
            Self::Nonsense { reason: AnswerError::OtherVersion { answered, .. }, .. } if !answered.is_empty() => {
                format!("set `apiVersion: {answered}` for this provider, or update it")
            }
            Self::EchoedToken { .. } => "set `tokenAttributes.cacheType: Token` for this provider".to_owned(),
            _ => return Vec::new(),
        };
        vec![hint]
    }

    /// The outcome in one word, for metrics.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::NotInstalled(_) => "not_installed",
            Self::NotStarted { .. } => "not_started",
            Self::Failed { .. } => "failed",
            Self::Ended { reason: RunError::TimedOut { .. }, .. } => "timed_out",
            Self::Ended { .. } => "too_much_output",
            Self::Nonsense { .. } => "bad_answer",
            Self::EchoedToken { .. } => "echoed_token",
            Self::Account { .. } => "service_account",
            Self::TooLong { .. } => "too_long",
            Self::Abandoned { .. } => "abandoned",
        }
    }
}

/// `: text`, or nothing.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}
