use std::fmt;
use std::time::Duration;

use credlet_api::exec::{ExecConfigError, InvalidCredential};

use crate::keypair::KeyPairError;
use crate::lookup::LookupError;
use crate::policy::PolicyError;
use credlet_platform::{ProcessExit, RunError};

/// Error of an exec plugin run. The variants differ in what has to be fixed.
///
/// `Display` is one clause, [`hints`](Self::hints) are actions for the user, and [`stderr`](Self::stderr) is the plugin's
/// own output. None of them contains a secret: plugin output is redacted and control characters are escaped.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plugin is not installed, or its file is not usable.
    #[error("{reason}")]
    NotInstalled {
        /// Result of the look-up.
        reason: LookupError,
        /// The kubeconfig's install hint, unless its rate limit is reached.
        install_hint: Option<String>,
    },
    /// The plugin policy does not allow the plugin.
    #[error(transparent)]
    Denied(PolicyError),
    /// The plugin requires an interactive terminal (`interactiveMode: Always`).
    #[error("`{command}` requires an interactive terminal: {reason}")]
    NotInteractive {
        /// Command of the plugin, as configured.
        command: String,
        /// What prevents interaction.
        reason: NotInteractive,
    },
    /// The process could not be started.
    #[error("failed to run `{command}`: {reason}")]
    NotStarted {
        /// Command of the plugin, as configured.
        command: String,
        /// Error of the operating system, or the exceeded limit.
        reason: RunError,
        /// Size of the encoded `certificate-authority-data` in the plugin's environment.
        certificate_authority_bytes: usize,
    },
    /// The plugin exited with an error.
    #[error("`{command}` {exit}{}", OptionalSuffix(message))]
    Failed {
        /// Command of the plugin, as configured.
        command: String,
        /// Exit code or signal.
        exit: ProcessExit,
        /// The plugin's error message on one line; may be empty.
        message: String,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// The plugin was killed because it exceeded a limit on time or output.
    #[error("`{command}` was killed: {reason}")]
    LimitExceeded {
        /// Command of the plugin, as configured.
        command: String,
        /// The exceeded limit.
        reason: RunError,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// The plugin's output is not a valid credential.
    #[error("invalid output from `{command}`: {reason}")]
    InvalidOutput {
        /// Command of the plugin, as configured.
        command: String,
        /// The invalid part.
        reason: InvalidOutput,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// The `exec` section of the kubeconfig is invalid.
    #[error("invalid exec section of the kubeconfig user: {}", JoinErrors(.0))]
    InvalidConfig(Vec<ExecConfigError>),
    /// The async runtime was shut down during the run.
    #[error("running `{command}` was cancelled: the runtime was shut down")]
    Cancelled {
        /// Command of the plugin, as configured.
        command: String,
    },
}

impl Error {
    /// Returns actions for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotInstalled { install_hint: Some(hint), .. } => hint.clone(),
            Self::NotInstalled { reason: LookupError::NotExecutable { path }, .. } => {
                format!("`chmod +x {}` if you trust it", path.display())
            }
            Self::NotInstalled { reason, .. } if reason.is_missing() => {
                "install it, or correct `command` in the kubeconfig's exec section".to_owned()
            }
            Self::NotInteractive { reason: NotInteractive::NotATerminal, .. } => {
                "run this in a terminal, or set `interactiveMode: IfAvailable` if the plugin can do without".to_owned()
            }
            Self::NotStarted {
                reason: RunError::ArgumentTooLong { .. } | RunError::ArgumentsTooLarge { .. },
                certificate_authority_bytes: bytes,
                ..
            } => format!(
                "{bytes} bytes of it are certificate-authority-data: shorten that bundle, \
                 or set `provideClusterInfo: false` if the plugin can do without"
            ),
            Self::NotStarted { reason: RunError::Spawn { reason }, .. } if reason.is_not_found() => {
                "the interpreter that its first line names is missing".to_owned()
            }
            Self::LimitExceeded { reason: RunError::TimedOut { .. }, command, .. } => {
                format!("run `{command}` by hand to see what it waits for")
            }
            Self::InvalidOutput {
                reason: InvalidOutput::Credential(InvalidCredential::VersionMismatch { received, .. }),
                ..
            } => format!("set `apiVersion: {received}` in the kubeconfig's exec section, or update the plugin"),
            _ => return Vec::new(),
        };
        vec![hint]
    }

    /// Returns the last lines of the plugin's standard error; empty if it wrote to the terminal itself.
    pub fn stderr(&self) -> &str {
        match self {
            Self::Failed { stderr, .. } | Self::LimitExceeded { stderr, .. } | Self::InvalidOutput { stderr, .. } => {
                stderr
            }
            _ => "",
        }
    }

    /// Returns the timeout that the plugin exceeded.
    pub fn time_limit(&self) -> Option<Duration> {
        match self {
            Self::LimitExceeded { reason: RunError::TimedOut { limit, .. }, .. } => Some(*limit),
            _ => None,
        }
    }
}

/// Why a plugin cannot interact with the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotInteractive {
    /// Standard input is not a terminal.
    NotATerminal,
    /// The client uses standard input itself, for this reason (may be empty).
    StdinUnavailable(String),
}

impl fmt::Display for NotInteractive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATerminal => f.write_str("standard input is not a terminal"),
            Self::StdinUnavailable(reason) => write!(f, "standard input is in use{}", OptionalSuffix(reason)),
        }
    }
}

/// An invalid part of a plugin's output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOutput {
    /// The `ExecCredential` is malformed or incomplete.
    #[error(transparent)]
    Credential(InvalidCredential),
    /// Certificate or key are malformed, or do not match.
    #[error(transparent)]
    KeyPair(KeyPairError),
}

/// Displays `: text`, or nothing if `text` is empty.
struct OptionalSuffix<'a>(&'a str);

impl fmt::Display for OptionalSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// Displays errors separated by `; `.
struct JoinErrors<'a>(&'a [ExecConfigError]);

impl fmt::Display for JoinErrors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
