use std::process::ExitCode;

/// Exit codes. Scripts rely on the numbers; `docs/guide/exit-codes.md` documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Success = 0,
    /// The server returned an error response (any status other than 2xx).
    ServerError = 1,
    /// The command line, the kubeconfig or a file that they name is invalid.
    Usage = 2,
    /// No credential: the plugin is missing, failed or returned invalid output.
    NoCredential = 3,
    /// The plugin policy denies the program.
    PolicyDenied = 4,
    TimedOut = 5,
    /// The server could not be reached or its certificate is not trusted.
    Unreachable = 6,
    /// Internal or operating system failure that the command line cannot cause: `EX_SOFTWARE` of sysexits.h.
    Internal = 70,
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(exit as u8)
    }
}
