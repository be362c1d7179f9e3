//! What was found.

use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::{Printer, style};

/// All about one patient.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    ok: bool,
    checks: Vec<Check>,
    #[serde(skip)]
    title: String,
}

/// One question and its answer.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
    #[serde(skip)]
    problem: Option<Exit>,
}

impl Report {
    pub(super) fn new(patient: &super::Patient) -> Self {
        Self {
            context: patient.context.clone(),
            user: patient.user.clone(),
            command: patient.command().map(str::to_owned),
            ok: true,
            checks: Vec::new(),
            title: patient.title(),
        }
    }

    /// All is well.
    pub(super) fn good(&mut self, name: &'static str, message: impl Into<String>) {
        self.checks.push(Check { name, ok: true, message: message.into(), hints: Vec::new(), problem: None });
    }

    /// Something is wrong.
    pub(super) fn bad(&mut self, name: &'static str, error: &CliError) {
        let (message, hints) = (error.message().to_owned(), error.hints().to_vec());
        self.checks.push(Check { name, ok: false, message, hints, problem: Some(error.exit()) });
        self.ok = false;
    }

    /// The code of the first thing that is wrong.
    pub(super) fn problem(&self) -> Option<Exit> {
        self.checks.iter().find_map(|check| check.problem)
    }

    pub(super) fn print(&self, printer: &mut Printer) {
        let style = style::stdout();
        printer.line(style.strong(&credlet_api::visible(&self.title)));
        for check in &self.checks {
            let mark = if check.ok { style.good("✓") } else { style.bad("✗") };
            let message = credlet_api::visible(&check.message).replace('\n', "\n      ");
            printer.line(format!("  {mark} {:<11} {message}", check.name));
            for hint in &check.hints {
                printer.line(format!("    hint: {}", credlet_api::visible(hint)));
            }
        }
    }
}

/// The last line.
pub(super) fn summary(reports: &[Report], printer: &mut Printer) {
    let problems = reports.iter().filter(|report| !report.ok).count();
    match (problems, reports.len()) {
        (0, _) => printer.line("All is well."),
        (1, 1) => {}
        (problems, all) => printer.line(format!("{problems} of {all} with a problem.")),
    }
}
