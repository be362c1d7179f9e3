//! Writes to standard output in the format that the user selects.
//!
//! On a terminal all control characters other than newline and tab are escaped, except the colours of [`style`] in [`Printer::line`]
//! and the bytes of [`Printer::raw`]. Pipes and files receive data unchanged.

pub(crate) mod style;
mod yaml;

use std::io::{self, IsTerminal, Write as _};

use clap::{Args, ValueEnum};
use credlet_api::{Secret, TerminalFilter};
use serde::Serialize;

use crate::error::CliError;

/// Output formats of subcommands with structured output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for a terminal
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The flag `-o` with the values of [`OutputFormat`].
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: OutputFormat,
}

/// The flag `--reveal`. text, json and yaml mask secrets unless it is set. Formats that are consumed by other programs (raw, header,
/// exec-credential, docker-config …) always contain them.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct RevealArgs {
    /// Show secrets instead of masking them
    #[arg(long)]
    pub(crate) reveal: bool,
}

impl RevealArgs {
    /// Returns the secret, or its length if it is masked.
    pub(crate) fn show(self, secret: &Secret) -> String {
        match secret.expose() {
            text if self.reveal => text.to_owned(),
            text => format!("[redacted, {} characters]", text.chars().count()),
        }
    }
}

/// Standard output. After its reader has closed it, further output is dropped without an error.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    closed: bool,
    failed: Option<io::Error>,
}

impl Printer {
    /// Prints a line, which may have colours. The caller must escape untrusted text in it.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        let line = if is_terminal() { escape_but_colours(line) } else { line.to_owned() };
        self.raw(format!("{line}\n").as_bytes());
    }

    /// Prints untrusted text on one line, escaped for terminals, pipes and files.
    pub(crate) fn untrusted_line(&mut self, text: &str) {
        self.line(credlet_api::escape_line(text));
    }

    /// Writes data: unchanged to a pipe or file, escaped to a terminal.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if is_terminal() {
            let mut filter = TerminalFilter::default();
            let text = filter.push(bytes) + &filter.finish();
            self.raw(text.as_bytes());
        } else {
            self.raw(bytes);
        }
    }

    /// Writes bytes unchanged, including control sequences.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        if self.closed {
            return;
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            self.closed = true;
            self.failed = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
    }

    /// Prints a JSON or YAML document. Callers print [`OutputFormat::Text`] themselves; it is JSON here. Characters that are not displayable
    /// are written as escapes of the format, so a parser reads the same strings.
    pub(crate) fn object(&mut self, object: &impl Serialize, format: OutputFormat) {
        // Serializing plain data cannot fail.
        self.raw(document(object, format).unwrap_or_default().as_bytes());
    }

    /// Prints a JSON document on one line, with the same escapes.
    pub(crate) fn json_line(&mut self, object: &impl Serialize) {
        let text = serde_json::to_string(object).unwrap_or_default();
        self.raw(format!("{}\n", credlet_api::escape_json(&text)).as_bytes());
    }

    /// Returns false after the reader has closed standard output.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed
    }

    /// # Errors
    /// If writing failed for another reason than a closed pipe, for example a full disk.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        match self.failed {
            Some(error) => Err(CliError::internal(format!("failed to write to standard output: {error}"))),
            None => Ok(()),
        }
    }
}

fn document(object: &impl Serialize, format: OutputFormat) -> serde_json::Result<String> {
    Ok(match format {
        OutputFormat::Yaml => credlet_api::escape_yaml(&yaml::to_string(&serde_json::to_value(object)?)),
        OutputFormat::Json | OutputFormat::Text => {
            credlet_api::escape_json(&serde_json::to_string_pretty(object)?) + "\n"
        }
    })
}

/// Escapes all control sequences but `ESC [ … m`. Defence in depth: callers escape untrusted text, including its colours.
fn escape_but_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut safe = credlet_api::escape_control_chars(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        let is_colour = part[end..].starts_with('m');
        safe.push_str(if is_colour { "\u{1b}[" } else { "U+001B[" });
        safe.push_str(&credlet_api::escape_control_chars(part));
    }
    safe
}

/// Prints names and untrusted values in two columns, each value on one line.
pub(crate) fn print_rows(printer: &mut Printer, indent: &str, rows: &[(String, String)]) {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    for (name, value) in rows {
        printer.untrusted_line(format!("{indent}{name:<width$}  {value}").trim_end());
    }
}

/// Returns standard output for the response of a plugin: unchanged to a pipe, escaped to a terminal.
pub(crate) fn plugin_stdout() -> EscapingWriter<io::Stdout> {
    EscapingWriter::new(io::stdout())
}

/// Returns standard error for the messages of a plugin, likewise.
pub(crate) fn plugin_stderr() -> EscapingWriter<io::Stderr> {
    EscapingWriter::new(io::stderr())
}

/// A stream that escapes control characters if it is a terminal.
#[derive(Debug)]
pub(crate) struct EscapingWriter<W> {
    stream: W,
    filter: Option<TerminalFilter>,
}

impl<W: io::Write + IsTerminal> EscapingWriter<W> {
    fn new(stream: W) -> Self {
        let filter = stream.is_terminal().then(TerminalFilter::default);
        Self { stream, filter }
    }
}

impl<W: io::Write> io::Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.filter {
            Some(filter) => self.stream.write_all(filter.push(bytes).as_bytes()).map(|()| bytes.len()),
            None => self.stream.write(bytes),
        }
    }

    /// Also writes the bytes of an incomplete character.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(filter) = &mut self.filter {
            self.stream.write_all(filter.finish().as_bytes())?;
        }
        self.stream.flush()
    }
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn escapes_control_characters_in_documents() {
        let value =
            json!({ "k\u{9b}": ["\u{7f}\u{202e}\u{2028}\u{e0041}\r\u{1b}[2J", "日本"], "a": {"b\u{feff}": "\u{85}"} });
        for format in [OutputFormat::Json, OutputFormat::Yaml] {
            let text = document(&value, format).unwrap();
            assert!(text.chars().all(|c| c == '\n' || credlet_api::is_displayable(c)), "{text:?}");
            assert!(text.contains("日本"), "{text}");
            let read: Value = match format {
                OutputFormat::Yaml => serde_saphyr::from_str(&text).unwrap(),
                _ => serde_json::from_str(&text).unwrap(),
            };
            assert_eq!(read, value);
        }
    }

    #[test]
    fn escapes_plugin_streams_on_terminals() {
        for (filter, expected) in
            [(Some(TerminalFilter::default()), "aU+001B[2JbU+009B\u{fffd}"), (None, "a\u{1b}[2Jb\u{9b}")]
        {
            let mut writer = EscapingWriter { stream: Vec::new(), filter };
            writer.write_all(b"a\x1b[2J").unwrap();
            writer.write_all(b"b\xc2").unwrap();
            writer.write_all(b"\x9b").unwrap();
            if writer.filter.is_some() {
                writer.write_all(b"\xc3").unwrap();
            }
            writer.flush().unwrap();
            assert_eq!(String::from_utf8(writer.stream).unwrap(), expected);
        }
    }

    #[test]
    fn passes_only_colours_in_own_lines() {
        assert_eq!(escape_but_colours("\u{1b}[31;1merror:\u{1b}[0m x\ty"), "\u{1b}[31;1merror:\u{1b}[0m x\ty");
        assert_eq!(
            escape_but_colours("a\u{1b}[2J\rb\u{1b}]0;t\u{7}\u{9b}m"),
            "aU+001B[2JU+000DbU+001B]0;tU+0007U+009Bm"
        );
    }
}
