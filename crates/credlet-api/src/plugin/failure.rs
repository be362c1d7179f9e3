use std::error::Error;
use std::fmt;
use std::num::NonZeroU8;

/// Why a plugin has no answer, told to the person behind the client.
///
/// Anything written here ends up on a screen and in logs: never put a secret into it.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hints: Vec<String>,
    exit_code: NonZeroU8,
}

impl Failure {
    /// In one clause, what went wrong.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), exit_code: NonZeroU8::MIN }
    }

    /// With an error and its causes after the clause.
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

    /// With something the person can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With another exit code than 1.
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

/// As it goes to standard error, final newline included.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", crate::visible(&self.message))?;
        self.hints.iter().try_for_each(|hint| writeln!(f, "hint: {}", crate::visible(hint)))
    }
}
