use credlet_client::kubeconfig::{KubeconfigError, LoadingRules, Mistake, Origin};
use credlet_core::SystemEnv;
use serde::Serialize;

use crate::args::Global;
use crate::commands::Outcome;
use crate::exit::Exit;
use crate::printer::{Format, FormatArg, Printer, style};

/// Find all mistakes in the kubeconfig at once, in what is used and in what is not
///
/// Files that cannot be read, every context, cluster and user, the files they refer to, and the plugin policy in kuberc.
/// Nothing is run and nobody is called.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    output: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  credlet config check
  credlet config check --kubeconfig ./new.yaml -o json";

/// A mistake, for a script.
#[derive(Debug, Serialize)]
struct Finding {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    message: String,
    /// The same with its place, for a person.
    #[serde(skip)]
    text: String,
}

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    let rules = global.loading_rules();
    let (findings, read) = check(&rules, global);
    let mut printer = Printer::default();
    match args.output.format {
        Format::Text => {
            for finding in &findings {
                printer.foreign(&format!("{} {}", style::stdout().bad("✗"), finding.text));
            }
            if findings.is_empty() {
                printer.foreign(&format!("{} no mistakes in {}", style::stdout().good("✓"), listed(&read)));
            }
        }
        format => printer.object(&findings, format),
    }
    printer.done()?;
    Ok(if findings.is_empty() { Exit::Ok } else { Exit::Usage })
}

/// All mistakes, and the files that could be read. One file that cannot be read does not hide the mistakes in another.
fn check(rules: &LoadingRules, global: &Global) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut readable) = (Vec::new(), Vec::new());
    for file in rules.files() {
        let alone = LoadingRules::list(Vec::new()).explicit(file);
        let missing_is_fine = global.kubeconfig.as_ref().is_none_or(|given| given.as_os_str().is_empty());
        match alone.load(&SystemEnv) {
            Ok(_) => readable.push(file.to_owned()),
            Err(_) if missing_is_fine && !file.exists() => {}
            Err(error) => findings.push(Finding {
                file: Some(file.to_string_lossy().into_owned()),
                line: None,
                message: error.to_string(),
                text: error.to_string(),
            }),
        }
    }
    let read = readable.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    // Loaded once more, together: what one file names another may define.
    let mistakes = match LoadingRules::list(readable).load(&SystemEnv) {
        Ok(kubeconfig) => kubeconfig.check(),
        Err(KubeconfigError::Invalid { mistakes }) => mistakes,
        Err(_) => Vec::new(),
    };
    findings.extend(mistakes.iter().map(Finding::of));
    if let Err(error) = global.policy() {
        let message = error.message().to_owned();
        findings.push(Finding { file: None, line: None, text: message.clone(), message });
    }
    (findings, read)
}

impl Finding {
    fn of(mistake: &Mistake) -> Self {
        let (file, line) = match &mistake.origin {
            Origin::File { path, line } => (Some(path.to_string_lossy().into_owned()), Some(*line)),
            _ => (None, None),
        };
        let message = format!("{}: {}", mistake.subject, mistake.problem);
        Self { file, line, message, text: mistake.to_string() }
    }
}

fn listed(files: &[String]) -> String {
    if files.is_empty() { "no files: there are none".to_owned() } else { files.join(", ") }
}
