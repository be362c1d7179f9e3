//! Results of the checks.

use serde::Serialize;

use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{Printer, style};

/// Results of all checks of one target.
#[derive(Debug, Serialize)]
pub(super) struct CheckReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    ok: bool,
    checks: Vec<CheckResult>,
    #[serde(skip)]
    title: String,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct CheckResult {
    name: &'static str,
    ok: bool,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
    #[serde(skip)]
    failure: Option<ExitStatus>,
}

impl CheckReport {
    pub(super) fn new(target: &super::CheckTarget) -> Self {
        Self {
            context: target.context.clone(),
            user: target.user.clone(),
            command: target.command().map(str::to_owned),
            ok: true,
            checks: Vec::new(),
            title: target.title(),
        }
    }

    /// Adds a passed check.
    pub(super) fn pass(&mut self, name: &'static str, message: impl Into<String>) {
        self.checks.push(CheckResult { name, ok: true, message: message.into(), hints: Vec::new(), failure: None });
    }

    /// Adds a failed check.
    pub(super) fn fail(&mut self, name: &'static str, error: &CliError) {
        let (message, hints) = (error.message().to_owned(), error.hints().to_vec());
        self.checks.push(CheckResult { name, ok: false, message, hints, failure: Some(error.exit()) });
        self.ok = false;
    }

    /// The exit status of the first failed check.
    pub(super) fn failure(&self) -> Option<ExitStatus> {
        self.checks.iter().find_map(|check| check.failure)
    }

    pub(super) fn print(&self, printer: &mut Printer) {
        let style = style::stdout();
        printer.line(style.strong(&credlet_api::escape_line(&self.title)));
        for check in &self.checks {
            let mark = if check.ok { style.good("✓") } else { style.bad("✗") };
            let message = credlet_api::escape_control_chars(&check.message).replace('\n', "\n      ");
            printer.line(format!("  {mark} {:<11} {message}", check.name));
            for hint in &check.hints {
                printer.line(format!("    hint: {}", credlet_api::escape_line(hint)));
            }
        }
    }
}

/// Prints the last line of the text output.
pub(super) fn summary(reports: &[CheckReport], printer: &mut Printer) {
    let problems = reports.iter().filter(|report| !report.ok).count();
    match (problems, reports.len()) {
        (0, _) => printer.line("All checks passed."),
        (1, 1) => {}
        (problems, all) => printer.line(format!("{problems} of {all} failed.")),
    }
}
