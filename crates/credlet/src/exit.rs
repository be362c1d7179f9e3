use std::process::ExitCode;

/// What a script sees. The numbers are a promise; `docs/guide/exit-codes.md` says what belongs to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was done.
    Ok = 0,
    /// The server said no.
    Refused = 1,
    /// The command line, the kubeconfig or a file that they name is wrong.
    Usage = 2,
    /// The credential could not be had.
    NoCredential = 3,
    /// The plugin policy does not allow it.
    Denied = 4,
    /// It took too long.
    TimedOut = 5,
    /// The server could not be reached.
    Unreachable = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
