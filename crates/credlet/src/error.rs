//! What went wrong, as a person at a terminal should read it.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

use credlet_client::http::BoxError;
use credlet_client::kubeconfig::KubeconfigError;
use credlet_client::{AuthError, ClientError, conn};
use credlet_core::{Ended, PolicyError, PolicyFileError};

use crate::exit::Exit;
use crate::printer::style;

/// Why a verb did not do what it is for.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: Exit,
    /// One line or more, with all causes in it.
    message: String,
    hints: Vec<String>,
    /// A plugin that had the terminal was ended by this signal, and so by the person who waits for us.
    signal: Option<i32>,
}

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hints: Vec::new(), signal: None }
    }

    /// The command line, or a file that it names, is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// An error with all its causes.
    fn caused(exit: Exit, error: &(dyn StdError + 'static)) -> Self {
        Self::new(exit, chain(error))
    }

    /// With something to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Tells the person, and gives the code for the script.
    pub(crate) fn report(&self) -> ExitCode {
        if let Some(signal) = self.signal {
            crate::runtime::die_of(signal);
        }
        let style = style::stderr();
        let mut stderr = std::io::stderr().lock();
        // Without anybody to tell, the code says it.
        let _ = writeln!(stderr, "{} {}", style.bad("error:"), credlet_api::visible(&self.message));
        for hint in &self.hints {
            let _ = writeln!(stderr, "{} {}", style.strong("hint:"), credlet_api::visible(hint));
        }
        self.exit.into()
    }
}

/// The error and all its causes in one line, each of them once.
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
            KubeconfigError::Invalid { mistakes } if mistakes.len() > 1 => Self::usage(listed("mistakes", mistakes)),
            KubeconfigError::Unreadable { files } if files.len() > 1 => Self::usage(listed("unreadable files", files)),
            KubeconfigError::NoSuchContext { .. } => {
                Self::caused(Exit::Usage, &error).hint("`kubectl config get-contexts` lists the contexts there are")
            }
            KubeconfigError::Nothing { .. } => {
                Self::caused(Exit::Usage, &error).hint("name a file with --kubeconfig or in $KUBECONFIG")
            }
            _ => Self::caused(Exit::Usage, &error),
        }
    }
}

fn listed<T: Display>(what: &str, items: &[T]) -> String {
    let lines = items.iter().map(|item| format!("\n  {item}"));
    format!("the kubeconfig has {} {what}:{}", items.len(), lines.collect::<String>())
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Connection(error) => error.into(),
            ClientError::Credential(error) => error.into(),
            error => Self::caused(Exit::Usage, &error),
        }
    }
}

impl From<PolicyFileError> for CliError {
    fn from(error: PolicyFileError) -> Self {
        Self::caused(Exit::Denied, &error)
    }
}

impl From<PolicyError> for CliError {
    fn from(error: PolicyError) -> Self {
        Self::caused(Exit::Denied, &error)
    }
}

impl From<AuthError> for CliError {
    fn from(error: AuthError) -> Self {
        (&error).into()
    }
}

impl From<&AuthError> for CliError {
    fn from(error: &AuthError) -> Self {
        use credlet_core::Error as Plugin;
        let (exit, signal) = match error {
            AuthError::Plugin(Plugin::Refused(_)) => (Exit::Denied, None),
            AuthError::Plugin(Plugin::Misconfigured(_)) => (Exit::Usage, None),
            AuthError::Plugin(plugin) if plugin.time_limit().is_some() => (Exit::TimedOut, None),
            AuthError::Plugin(Plugin::Failed { ended: Ended::Killed(signal), .. }) => {
                (Exit::NoCredential, by_person(*signal))
            }
            _ => (Exit::NoCredential, None),
        };
        let hints = error.hints();
        Self { hints, signal, ..Self::caused(exit, error) }
    }
}

/// Ctrl-C and Ctrl-\ at the terminal, which a plugin that talks to a person has while it runs.
fn by_person(signal: i32) -> Option<i32> {
    let typed = [rustix::process::Signal::INT, rustix::process::Signal::QUIT];
    typed.iter().any(|typed| typed.as_raw() == signal).then_some(signal)
}

impl From<conn::Error> for CliError {
    fn from(error: conn::Error) -> Self {
        (&error).into()
    }
}

impl From<&conn::Error> for CliError {
    fn from(error: &conn::Error) -> Self {
        use conn::Error as Conn;
        let exit = match error {
            Conn::Server { .. } | Conn::ProxyUrl { .. } | Conn::Roots { .. } | Conn::OtherServer { .. } => Exit::Usage,
            Conn::Identity { .. } | Conn::ExecProxy { .. } | Conn::NotRenewed { .. } => Exit::NoCredential,
            Conn::TimedOut { .. } => Exit::TimedOut,
            _ => Exit::Unreachable,
        };
        let told = Self::caused(exit, error);
        match error {
            Conn::Unreachable { .. } | Conn::TimedOut { .. } => {
                told.hint("`credlet config resolve` shows which file and line the address comes from")
            }
            Conn::ExecProxy { .. } => {
                told.hint("CLIENT_EXEC_PROXY=false runs the plugin without offering it to start a proxy")
            }
            Conn::Certificate { .. } => told.hint(
                "check `certificate-authority-data` and `tls-server-name` of the cluster; \
                 `credlet config resolve` shows where they come from",
            ),
            Conn::Handshake { .. } => {
                told.hint("`credlet whoami` and `credlet token` show the certificate that is sent")
            }
            _ => told,
        }
    }
}

/// What a request fails with: one of the above, unknown to the compiler.
impl From<BoxError> for CliError {
    fn from(error: BoxError) -> Self {
        let known = |error: &(dyn StdError + 'static)| {
            if let Some(error) = error.downcast_ref::<conn::Error>() {
                return Some(error.into());
            }
            if let Some(error) = error.downcast_ref::<std::sync::Arc<AuthError>>() {
                return Some((&**error).into());
            }
            error.downcast_ref::<AuthError>().map(Self::from)
        };
        known(&*error).unwrap_or_else(|| Self::caused(Exit::Usage, &*error))
    }
}
