//! Prompts for a PIN.

use credlet_api::{Secret, escape_line};
use credlet_platform::terminal::{PromptError, read_secret_line};

use crate::error::CliError;

/// Maximum length of a PIN in bytes.
const MAX_PIN_LEN: usize = 255;

/// Prompts on the controlling terminal and returns the line that is typed, without echo.
pub(super) fn prompt_pin(prompt: &str) -> Result<Secret, CliError> {
    read_secret_line(&escape_line(prompt), MAX_PIN_LEN).map(|mut line| Secret::new(std::mem::take(&mut *line))).map_err(
        |error| match error {
            PromptError::Interrupted(signal) => CliError::interrupted(signal),
            error => CliError::usage(error.to_string()),
        },
    )
}
