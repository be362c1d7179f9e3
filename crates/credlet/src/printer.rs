//! Standard output, in the formats a person or a script asks for.

pub(crate) mod style;
mod yaml;

use std::io::{self, IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};
use credlet_api::Secret;
use serde::Serialize;

use crate::error::CliError;

/// The formats of everything that a script may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For scripts
    Json,
    /// For scripts, and for people
    Yaml,
}

/// `-o`, for verbs with these formats and no others.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct FormatArg {
    /// How to print
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// Whether secrets are shown. One rule for every verb: text, json and yaml mask them unless told otherwise; formats that
/// exist to be used (raw, header, exec-credential, docker-config …) do not ask.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Reveal {
    /// Show secrets instead of masking them
    #[arg(long)]
    pub(crate) reveal: bool,
}

impl Reveal {
    /// The secret, or what may be known of it.
    pub(crate) fn show(self, secret: &Secret) -> String {
        match secret.expose() {
            text if self.reveal => text.to_owned(),
            text => format!("[redacted, {} characters]", text.chars().count()),
        }
    }
}

/// Standard output. Nobody reading it any more is not an error: what comes after that is not written, and that is all.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    gone: bool,
    failed: Option<io::Error>,
}

impl Printer {
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.write(format!("{}\n", line.as_ref()).as_bytes());
    }

    /// Foreign text, on a line of its own.
    pub(crate) fn foreign(&mut self, text: &str) {
        self.line(credlet_api::visible(text));
    }

    /// Bytes as they are, at once.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if self.gone {
            return;
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            self.gone = true;
            self.failed = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
    }

    /// An object for a script. [`Format::Text`] is the caller's business, and is taken for JSON here.
    pub(crate) fn object(&mut self, object: &impl Serialize, format: Format) {
        let text = match format {
            Format::Yaml => serde_json::to_value(object).map(|value| yaml::to_string(&value)),
            Format::Json | Format::Text => serde_json::to_string_pretty(object).map(|text| text + "\n"),
        };
        // Plain data: there is nothing in it that cannot be written.
        self.write(text.unwrap_or_default().as_bytes());
    }

    /// Whether there is still somebody to write for.
    pub(crate) fn is_open(&self) -> bool {
        !self.gone
    }

    /// # Errors
    /// When not all of it was written, though somebody was there: a full disk, for example.
    pub(crate) fn done(self) -> Result<(), CliError> {
        match self.failed {
            Some(error) => Err(CliError::usage(format!("standard output cannot be written: {error}"))),
            None => Ok(()),
        }
    }
}

/// Names and foreign values in two columns, each value on one line.
pub(crate) fn rows(printer: &mut Printer, indent: &str, rows: &[(String, String)]) {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    for (name, value) in rows {
        let value = value.replace(['\n', '\r'], " ");
        printer.foreign(format!("{indent}{name:<width$}  {value}").trim_end());
    }
}

/// Whether a person looks at standard output.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}
