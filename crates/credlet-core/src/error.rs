use std::fmt;
use std::time::Duration;

use credlet_api::exec::{AnswerError, ConfigError};

use crate::keypair::KeyPairError;
use crate::lookup::LookupError;
use crate::policy::PolicyError;
use crate::runner::{Ended, RunError};

/// Why there is no credential, by who must act.
///
/// `Display` is one clause; [`hints`](Self::hints) say what to do; [`stderr`](Self::stderr) is what the plugin itself
/// had to say. None of them holds a secret: foreign text is scrubbed and made visible before it gets here.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The user must install the plugin, or repair its file.
    #[error("{reason}")]
    NotInstalled {
        /// What is wrong with the file.
        reason: LookupError,
        /// The kubeconfig's install hint, unless it was shown often enough.
        install_hint: Option<String>,
    },
    /// The author of the plugin policy must act.
    #[error("{0}")]
    Refused(PolicyError),
    /// The user must come to a terminal, or choose a plugin that needs none.
    #[error("`{command}` must talk to a person, and {obstacle}")]
    NeedsPerson {
        /// The plugin.
        command: String,
        /// Why it cannot.
        obstacle: Obstacle,
    },
    /// The plugin could not be started at all.
    #[error("`{command}` was not run: {reason}")]
    NotStarted {
        /// The plugin.
        command: String,
        /// Why not.
        reason: RunError,
        /// How many bytes of certificate authorities were to be passed to it.
        certificate_authority_bytes: usize,
    },
    /// The plugin tried, and could not. What it wrote says what the user must do.
    #[error("`{command}` {ended}{}", Said(message))]
    Failed {
        /// The plugin.
        command: String,
        /// How it ended.
        ended: Ended,
        /// In its own words, on one line; may be empty.
        message: String,
        /// The last of its standard error.
        stderr: String,
    },
    /// The plugin did not finish in time, or would not stop printing.
    #[error("`{command}` was ended: {reason}")]
    Ended {
        /// The plugin.
        command: String,
        /// Which limit it came to.
        reason: RunError,
        /// The last of its standard error.
        stderr: String,
    },
    /// The plugin's author must act: what it printed is no credential.
    #[error("`{command}` is at fault: {reason}")]
    Nonsense {
        /// The plugin.
        command: String,
        /// What is wrong with it.
        reason: Nonsense,
        /// The last of its standard error.
        stderr: String,
    },
    /// The author of the kubeconfig must act.
    #[error("the exec section of the kubeconfig user is wrong: {}", Listed(.0))]
    Misconfigured(Vec<ConfigError>),
    /// The runtime in which the plugin was run has been shut down.
    #[error("the run of `{command}` was abandoned because its runtime was shut down")]
    Abandoned {
        /// The plugin.
        command: String,
    },
}

impl Error {
    /// What the person reading this can do, one line each.
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NotInstalled { install_hint: Some(hint), .. } => hint.clone(),
            Self::NotInstalled { reason: LookupError::NotExecutable { path }, .. } => {
                format!("`chmod +x {}` if you trust it", path.display())
            }
            Self::NotInstalled { reason, .. } if reason.is_missing() => {
                "install it, or correct `command` in the kubeconfig's exec section".to_owned()
            }
            Self::NeedsPerson { obstacle: Obstacle::NotATerminal, .. } => {
                "run this in a terminal, or set `interactiveMode: IfAvailable` if the plugin can do without".to_owned()
            }
            Self::NotStarted { reason: RunError::TooLong { .. } | RunError::TooMuch { .. }, .. } => {
                let bytes = self.certificate_authority_bytes();
                format!(
                    "{bytes} bytes of it are certificate-authority-data: shorten that bundle, \
                     or set `provideClusterInfo: false` if the plugin can do without"
                )
            }
            Self::NotStarted { reason: RunError::Start { reason }, .. } if reason.is_not_found() => {
                "the interpreter that its first line names is missing".to_owned()
            }
            Self::Ended { reason: RunError::TimedOut { .. }, command, .. } => {
                format!("run `{command}` by hand to see what it waits for")
            }
            Self::Nonsense { reason: Nonsense::Answer(AnswerError::OtherVersion { answered, .. }), .. } => {
                format!("set `apiVersion: {answered}` in the kubeconfig's exec section, or update the plugin")
            }
            _ => return Vec::new(),
        };
        vec![hint]
    }

    /// The last of what the plugin wrote to standard error; empty if it had the terminal itself.
    pub fn stderr(&self) -> &str {
        match self {
            Self::Failed { stderr, .. } | Self::Ended { stderr, .. } | Self::Nonsense { stderr, .. } => stderr,
            _ => "",
        }
    }

    /// How long the plugin was given, if that is what it came to.
    pub fn time_limit(&self) -> Option<Duration> {
        match self {
            Self::Ended { reason: RunError::TimedOut { limit, .. }, .. } => Some(*limit),
            _ => None,
        }
    }

    fn certificate_authority_bytes(&self) -> usize {
        match self {
            Self::NotStarted { certificate_authority_bytes, .. } => *certificate_authority_bytes,
            _ => 0,
        }
    }
}

/// Why nobody can talk to a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// There is no terminal.
    NotATerminal,
    /// There is one, and the program needs it for itself; with its reason, which may be empty.
    StdinUnavailable(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATerminal => f.write_str("standard input is not a terminal"),
            Self::StdinUnavailable(reason) => write!(f, "standard input is not free{}", Said(reason)),
        }
    }
}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Nonsense {
    /// Its form.
    #[error("{0}")]
    Answer(AnswerError),
    /// Its certificate or key.
    #[error("{0}")]
    KeyPair(KeyPairError),
}

/// `: text`, or nothing.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

struct Listed<'a>(&'a [ConfigError]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
