//! The error of a subcommand: message, hints and exit code.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use credlet_client::{AuthError, ClientBuildError};
use credlet_exec::{PolicyError, PolicyFileError, ProcessExit};
use credlet_kubeconfig::KubeconfigError;
use credlet_platform::process::exit_by_signal;
use credlet_platform::signals::is_sent_by_terminal;

use crate::exit::ExitStatus;
use crate::printer::style;

/// Error that ends a subcommand.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: ExitStatus,
    /// One or more lines, including all sources of the error.
    message: String,
    hints: Vec<String>,
    /// Signal by which the user stopped an interactive plugin or a prompt. The process exits by the same signal.
    signal: Option<i32>,
}

impl CliError {
    pub(crate) fn new(exit: ExitStatus, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hints: Vec::new(), signal: None }
    }

    /// Returns an error for an invalid command line, an invalid kubeconfig or an unusable file that they name (exit code 2).
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Usage, message)
    }

    /// Returns an error for a failure of credlet or of the operating system (exit code 70).
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ExitStatus::Internal, message)
    }

    /// Returns an error with the messages of `error` and of all its sources.
    fn from_chain(exit: ExitStatus, error: &(dyn StdError + 'static)) -> Self {
        Self::new(exit, chain(error))
    }

    /// Returns the error of a prompt that a signal interrupted.
    pub(crate) fn interrupted(signal: i32) -> Self {
        Self { signal: Some(signal), ..Self::new(ExitStatus::NoCredential, format!("interrupted by signal {signal}")) }
    }

    /// Adds a hint, which is printed on a separate line.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn exit(&self) -> ExitStatus {
        self.exit
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Prints the error and its hints, and returns the exit code. Further lines of a message are indented, so that foreign text in it
    /// cannot look like another message.
    pub(crate) fn report(&self) -> ExitCode {
        if let Some(signal) = self.signal {
            exit_by_signal(signal);
        }
        let style = style::stderr();
        let mut stderr = std::io::stderr().lock();
        // A closed standard error is ignored: the exit code still reports the failure.
        let _ = writeln!(stderr, "{} {}", style.bad("error:"), credlet_api::escape_indented(&self.message));
        for hint in &self.hints {
            let _ = writeln!(stderr, "{} {}", style.strong("hint:"), credlet_api::escape_indented(hint));
        }
        self.exit.into()
    }
}

/// Joins the messages of an error and its sources, without repeating a source that the message already ends with.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

impl From<KubeconfigError> for CliError {
    fn from(error: KubeconfigError) -> Self {
        match &error {
            KubeconfigError::Invalid { errors } if errors.len() > 1 => Self::usage(format_list("errors", errors)),
            KubeconfigError::Unreadable { files } if files.len() > 1 => {
                Self::usage(format_list("unreadable files", files))
            }
            KubeconfigError::NoSuchContext { .. } => Self::from_chain(ExitStatus::Usage, &error)
                .hint("run `kubectl config get-contexts` to list the contexts"),
            KubeconfigError::NotConfigured { .. } => {
                Self::from_chain(ExitStatus::Usage, &error).hint("name a file with --kubeconfig or in $KUBECONFIG")
            }
            _ => Self::from_chain(ExitStatus::Usage, &error),
        }
    }
}

fn format_list<T: Display>(what: &str, items: &[T]) -> String {
    let lines = items.iter().map(|item| format!("\n  {item}"));
    format!("invalid kubeconfig: {} {what}:{}", items.len(), lines.collect::<String>())
}

impl From<ClientBuildError> for CliError {
    fn from(error: ClientBuildError) -> Self {
        match error {
            ClientBuildError::Connection(error) => error.into(),
            ClientBuildError::Credential(error) => error.into(),
            error => Self::from_chain(ExitStatus::Usage, &error),
        }
    }
}

impl From<PolicyFileError> for CliError {
    fn from(error: PolicyFileError) -> Self {
        Self::from_chain(ExitStatus::PolicyDenied, &error)
    }
}

impl From<PolicyError> for CliError {
    fn from(error: PolicyError) -> Self {
        let hints = error.hints();
        Self { hints, ..Self::from_chain(ExitStatus::PolicyDenied, &error) }
    }
}

impl From<AuthError> for CliError {
    fn from(error: AuthError) -> Self {
        (&error).into()
    }
}

impl From<&AuthError> for CliError {
    fn from(error: &AuthError) -> Self {
        use credlet_exec::Error as Plugin;
        let (exit, signal) = match error {
            AuthError::Plugin(Plugin::Denied(_)) => (ExitStatus::PolicyDenied, None),
            AuthError::Plugin(Plugin::InvalidConfig(_)) => (ExitStatus::Usage, None),
            AuthError::Plugin(plugin) if plugin.time_limit().is_some() => (ExitStatus::TimedOut, None),
            AuthError::Plugin(Plugin::Failed { exit: ProcessExit::Killed(signal), .. }) => {
                // Ctrl-C and Ctrl-\ stop an interactive plugin.
                (ExitStatus::NoCredential, is_sent_by_terminal(*signal).then_some(*signal))
            }
            _ => (ExitStatus::NoCredential, None),
        };
        let hints = error.hints();
        Self { hints, signal, ..Self::from_chain(exit, error) }
    }
}

impl From<credlet_http::HttpError> for CliError {
    fn from(error: credlet_http::HttpError) -> Self {
        (&error).into()
    }
}

impl From<&credlet_http::HttpError> for CliError {
    fn from(error: &credlet_http::HttpError) -> Self {
        use credlet_http::HttpError as Conn;
        let exit = match error {
            Conn::InvalidServer { .. }
            | Conn::InvalidProxy { .. }
            | Conn::TrustRoots { .. }
            | Conn::OtherServer { .. } => ExitStatus::Usage,
            Conn::ClientCertificate { .. } | Conn::ExecProxy { .. } | Conn::NotRenewed { .. } => {
                ExitStatus::NoCredential
            }
            Conn::TimedOut { .. } => ExitStatus::TimedOut,
            _ => ExitStatus::Unreachable,
        };
        let cli_error = Self::from_chain(exit, error);
        match error {
            Conn::Unreachable { .. } | Conn::TimedOut { .. } => {
                cli_error.hint("run `credlet config resolve` to see which file and line the address comes from")
            }
            Conn::ExecProxy { .. } => {
                cli_error.hint("set CLIENT_EXEC_PROXY=false to run the plugin without an exec proxy")
            }
            Conn::Certificate { .. } => cli_error.hint(
                "check `certificate-authority-data` and `tls-server-name` of the cluster; \
                 run `credlet config resolve` to see where they come from",
            ),
            Conn::Handshake { .. } => {
                cli_error.hint("run `credlet whoami` or `credlet token` to see the certificate that is sent")
            }
            _ => cli_error,
        }
    }
}

impl From<credlet_client::Error> for CliError {
    fn from(error: credlet_client::Error) -> Self {
        use credlet_client::Error as Request;
        match error {
            Request::Kubeconfig(error) => error.into(),
            Request::Config(error) => error.into(),
            Request::Credential(error) => (&*error).into(),
            Request::Connection(error) => error.into(),
            error => Self::from_chain(ExitStatus::Usage, &error),
        }
    }
}
