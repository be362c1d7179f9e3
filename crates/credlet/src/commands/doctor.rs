mod checks;
mod permissions;
mod report;
mod target;

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use credlet_exec::{Env as _, Platform, StderrSink, SystemEnv, SystemRunner};

use self::checks::CheckRunner;
use self::report::CheckReport;
use self::target::CheckTarget;
use super::Outcome;
use crate::args::GlobalArgs;
use crate::exit::ExitStatus;
use crate::printer::{OutputArgs, OutputFormat, Printer};
use crate::runtime;

/// Diagnose why a credential does not work
///
/// Checks that the plugin exists, that the policy allows it and that no other user can replace it; runs it and checks its credential,
/// duration and expiry; sends a request and checks that the server is reachable, that the clocks agree and that the server accepts the
/// credential. Prints the programs before it runs them. The plugin policy in kuberc applies.
///
/// Exits with the code of the first failed check.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Check every user with an exec plugin on every cluster that a context combines it with
    #[arg(long, conflicts_with_all = ["context", "cluster", "user"])]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  credlet doctor
  credlet doctor --context blue
  credlet doctor --all -o json | jq '.[] | select(.ok | not)'";

pub(crate) fn run(args: DoctorArgs, global: &GlobalArgs) -> Outcome {
    let targets = if args.all { target::all(global)? } else { target::one(global)? };
    announce(&targets);
    // Standard error of a plugin must not appear between the lines of the report.
    let runner = Arc::new(SystemRunner::with_stderr(StderrSink::Discard));
    let mut runner = CheckRunner::new(global, Platform { runner, ..Platform::system() })?;
    runtime::run(async {
        let mut printer = Printer::default();
        let mut reports: Vec<CheckReport> = Vec::new();
        for target in &targets {
            let progress = ProgressLine::of(target);
            let report = runner.run_checks(target).await;
            drop(progress);
            if args.output.format == OutputFormat::Text {
                report.print(&mut printer);
            }
            reports.push(report);
        }
        match args.output.format {
            OutputFormat::Text => report::summary(&reports, &mut printer),
            format => printer.object(&reports, format),
        }
        printer.finish()?;
        Ok(reports.iter().find_map(CheckReport::failure).unwrap_or(ExitStatus::Success))
    })
}

/// Prints the plugins before they are run.
fn announce(targets: &[CheckTarget]) {
    let mut commands: Vec<&str> = targets.iter().filter_map(CheckTarget::command).collect();
    commands.sort_unstable();
    commands.dedup();
    if !commands.is_empty() {
        let commands = credlet_api::escape_line(&commands.join("`, `"));
        let _ = writeln!(std::io::stderr().lock(), "running `{commands}`, if the plugin policy allows it");
    }
}

/// A progress line on the terminal, cleared on drop.
struct ProgressLine {
    shown: bool,
}

impl ProgressLine {
    fn of(target: &CheckTarget) -> Self {
        // An interactive plugin uses the terminal itself.
        let shown = std::io::stderr().is_terminal() && !(target.is_interactive() && SystemEnv.stdin_is_terminal());
        if shown {
            let _ = write!(std::io::stderr().lock(), "… {}", credlet_api::escape_line(&target.title()));
        }
        Self { shown }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown {
            // Carriage return and "erase in line".
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}
