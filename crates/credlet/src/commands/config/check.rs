use credlet_exec::SystemEnv;
use credlet_kubeconfig::{KubeconfigError, LoadingRules, ValidationError, ValueOrigin};
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::commands::Outcome;
use crate::exit::ExitStatus;
use crate::printer::{OutputArgs, OutputFormat, Printer, style};

/// Report all errors in the kubeconfig, including unused entries
///
/// Checks that every file is readable, every context, cluster and user, the files they refer to, and the plugin policy in kuberc. Runs no
/// plugin and contacts no server.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  credlet config check
  credlet config check --kubeconfig ./new.yaml -o json";

/// An error in the kubeconfig, as serialised for scripts.
#[derive(Debug, Serialize)]
struct CheckFinding {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    message: String,
    /// Message with file and line, for text output.
    #[serde(skip)]
    text: String,
}

pub(crate) fn run(args: CheckArgs, global: &GlobalArgs) -> Outcome {
    let rules = global.loading_rules();
    let (findings, read) = check(&rules, global);
    let mut printer = Printer::default();
    match args.output.format {
        OutputFormat::Text => {
            for finding in &findings {
                let text = credlet_api::escape_line(&finding.text);
                printer.line(format!("{} {text}", style::stdout().bad("✗")));
            }
            if findings.is_empty() {
                let files = credlet_api::escape_line(&listed(&read));
                printer.line(format!("{} no errors in {files}", style::stdout().good("✓")));
            }
        }
        format => printer.object(&findings, format),
    }
    printer.finish()?;
    Ok(if findings.is_empty() { ExitStatus::Success } else { ExitStatus::Usage })
}

/// Returns all errors and the readable files. An unreadable file does not hide the errors of the others.
fn check(rules: &LoadingRules, global: &GlobalArgs) -> (Vec<CheckFinding>, Vec<String>) {
    let (mut findings, mut readable) = (Vec::new(), Vec::new());
    for file in rules.files() {
        let alone = LoadingRules::list(Vec::new()).explicit(file);
        let missing_is_fine = global.kubeconfig.as_ref().is_none_or(|given| given.as_os_str().is_empty());
        match alone.load(&SystemEnv) {
            Ok(_) => readable.push(file.to_owned()),
            Err(_) if missing_is_fine && !file.exists() => {}
            Err(error) => findings.push(CheckFinding {
                file: Some(file.to_string_lossy().into_owned()),
                line: None,
                message: error.to_string(),
                text: error.to_string(),
            }),
        }
    }
    let read = readable.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    // Loaded together, because one file may refer to an entry of another.
    let mistakes = match LoadingRules::list(readable).load(&SystemEnv) {
        Ok(kubeconfig) => kubeconfig.check(),
        Err(KubeconfigError::Invalid { errors }) => errors,
        Err(_) => Vec::new(),
    };
    findings.extend(mistakes.iter().map(CheckFinding::of));
    if let Err(error) = global.policy() {
        let message = error.message().to_owned();
        findings.push(CheckFinding { file: None, line: None, text: message.clone(), message });
    }
    (findings, read)
}

impl CheckFinding {
    fn of(mistake: &ValidationError) -> Self {
        let (file, line) = match &mistake.origin {
            ValueOrigin::File { path, line } => (Some(path.to_string_lossy().into_owned()), Some(*line)),
            _ => (None, None),
        };
        let message = format!("{}: {}", mistake.subject, mistake.problem);
        Self { file, line, message, text: mistake.to_string() }
    }
}

fn listed(files: &[String]) -> String {
    if files.is_empty() { "no files: none found".to_owned() } else { files.join(", ") }
}
