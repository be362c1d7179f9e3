mod examine;
mod patient;
mod report;
mod safety;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use credlet_core::{Env as _, StderrSink, SystemEnv, SystemRunner, World};

use self::examine::Doctor;
use self::patient::Patient;
use self::report::Report;
use super::Outcome;
use crate::args::Global;
use crate::exit::Exit;
use crate::printer::{Format, FormatArg, Printer};
use crate::runtime;

/// Find out why a credential does not work
///
/// Is the program there, allowed, safe from others? Does it answer, how fast, for how long? Is the server there, is the
/// clock right, does the server accept the credential? Says first which programs it will run; the plugin policy in
/// kuberc holds here too.
///
/// The exit code is that of the first thing that is wrong.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Examine every user with a plugin, on every cluster that a context uses it for
    #[arg(long, conflicts_with_all = ["context", "cluster", "user"])]
    all: bool,
    #[command(flatten)]
    output: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  credlet doctor
  credlet doctor --context blue
  credlet doctor --all -o json | jq '.[] | select(.ok | not)'";

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    let patients = if args.all { patient::all(global)? } else { patient::one(global)? };
    announce(&patients);
    // What a plugin writes is for the report, not for between its lines.
    let runner = Arc::new(SystemRunner::with_stderr(StderrSink::Discard));
    let mut doctor = Doctor::new(global, World { runner, ..World::system() })?;
    runtime::run(async {
        let mut printer = Printer::default();
        let mut reports: Vec<Report> = Vec::new();
        for patient in &patients {
            let progress = Progress::of(patient);
            let report = doctor.examine(patient).await;
            drop(progress);
            if args.output.format == Format::Text {
                report.print(&mut printer);
            }
            reports.push(report);
        }
        match args.output.format {
            Format::Text => report::summary(&reports, &mut printer),
            format => printer.object(&reports, format),
        }
        printer.done()?;
        Ok(reports.iter().find_map(Report::problem).unwrap_or(Exit::Ok))
    })
}

/// Says what will be run, before it is.
fn announce(patients: &[Patient]) {
    let mut commands: Vec<&str> = patients.iter().filter_map(Patient::command).collect();
    commands.sort_unstable();
    commands.dedup();
    if !commands.is_empty() {
        let commands = credlet_api::visible(&commands.join("`, `"));
        let _ = writeln!(std::io::stderr().lock(), "running `{commands}`, if the plugin policy allows it");
    }
}

/// Shows a person who waits what is being done. Gone when dropped.
struct Progress {
    shown: bool,
}

impl Progress {
    fn of(patient: &Patient) -> Self {
        // A plugin that may talk to the person has the terminal to itself.
        let shown = std::io::stderr().is_terminal() && !(patient.may_talk() && SystemEnv.stdin_is_terminal());
        if shown {
            let _ = write!(std::io::stderr().lock(), "… {}", credlet_api::visible(&patient.title()));
        }
        Self { shown }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            // Back to the beginning of the line, and nothing on it.
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}
