use std::error::Error;
use std::fmt;
use std::num::NonZeroU8;

/// Error message of a plugin, with hints and an exit code.
///
/// It is printed on standard error and may be logged by the client, so it must not contain a secret. Any error converts
/// to a failure with its chain of sources:
///
/// ```
/// use credlet_plugin::Failure;
///
/// let error = std::io::Error::other("connection refused");
/// let failure = Failure::new("failed to fetch a token").because(&error).hint("run `acme login`");
/// assert_eq!(failure.to_string(), "error: failed to fetch a token: connection refused\nhint: run `acme login`\n");
/// ```
#[derive(Debug)]
pub struct Failure {
    message: String,
    hints: Vec<String>,
    exit_code: NonZeroU8,
}

impl Failure {
    /// Creates a failure with a message of one clause and exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), exit_code: NonZeroU8::MIN }
    }

    /// Appends an error and its chain of sources to the message.
    #[must_use]
    pub fn because(mut self, error: &dyn Error) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            self.message.push_str(": ");
            self.message.push_str(&error.to_string());
            cause = error.source();
        }
        self
    }

    /// Adds a hint for the user, printed in a separate line.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Sets the exit code.
    #[must_use]
    pub fn exit_with(mut self, code: NonZeroU8) -> Self {
        self.exit_code = code;
        self
    }

    pub(super) fn exit_code(&self) -> u8 {
        self.exit_code.get()
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let failure = Self::new(error.to_string());
        match error.source() {
            Some(cause) => failure.because(cause),
            None => failure,
        }
    }
}

/// The output on standard error, with a final newline. Further lines of the message are indented, so that untrusted
/// text in it cannot look like another message.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", credlet_api::escape_indented(&self.message))?;
        self.hints.iter().try_for_each(|hint| writeln!(f, "hint: {}", credlet_api::escape_indented(hint)))
    }
}
