use std::sync::Arc;

use credlet_core::{StderrSink, SystemRunner, World};
use credlet_image::{
    Asking, Config, ConfigError, Finding, ImageCredentials, Options, Outcome as Step, Suspicion, lint, lint_answer,
};
use serde_json::json;

use super::super::Outcome;
use super::source::{Source, Who};
use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::{Format, FormatArg, Printer, style};
use crate::runtime;

/// Check a configuration of providers: everything wrong with it, and what is suspicious
///
/// Nothing is run unless --run asks for it. Ends with code 0 if all is well, with code 1 if something is surely not meant so (or, with --strict,
/// only suspicious), and with code 2 if a kubelet would not start with it: fit for CI, and for ExecStartPre= of systemd.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// End with code 1 for what is only suspicious, too
    #[arg(long)]
    strict: bool,
    /// Run the providers that match this image, too, and check what they answer; may be repeated
    #[arg(long, value_name = "IMAGE")]
    run: Vec<String>,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    output: FormatArg,
}

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    let config = args.source.config()?;
    let checked = match args.source.bin_dir() {
        Ok(bin_dir) => {
            let world = World { runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)), ..World::system() };
            ImageCredentials::load(&config, bin_dir, Options::default(), world).map(drop)
        }
        // Without the binaries the rest can be checked all the same.
        Err(_) => Ok(()),
    };
    let read = checked.and_then(|()| Config::read(&config));
    let mut printer = Printer::default();
    let exit = match read {
        Err(ConfigError { mistakes }) => {
            let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            print(&mut printer, args.output.format, &lines, &[], &[], None);
            Exit::Usage
        }
        Ok(config) => {
            let mut findings = lint(&config);
            if !args.run.is_empty() {
                runtime::run(global.in_time(async {
                    findings.extend(answers(&args, &config, global).await?);
                    Ok(Exit::Ok)
                }))?;
            }
            let (wrong, odd): (Vec<_>, Vec<_>) =
                findings.into_iter().partition(|finding| finding.suspicion.is_mistake());
            let text = |findings: &[Finding]| -> Vec<String> { findings.iter().map(ToString::to_string).collect() };
            print(&mut printer, args.output.format, &[], &text(&wrong), &text(&odd), Some(&config));
            if !wrong.is_empty() || args.strict && !odd.is_empty() { Exit::Refused } else { Exit::Ok }
        }
    };
    printer.done()?;
    Ok(exit)
}

/// What is suspicious about the answers of the providers themselves.
async fn answers(args: &Args, config: &Config, global: &Global) -> Result<Vec<Finding>, CliError> {
    let ready = args.source.ready(&args.who, global).await?;
    let mut findings = Vec::new();
    for image in &args.run {
        let found = ready.credentials.look_up(image, &ready.asking(Asking::default())).await;
        let found = found.map_err(|error| CliError::usage(error.to_string()))?;
        for (step, provider) in found.trace.steps.iter().zip(&config.providers) {
            let no_answer = |reason: String| {
                let image = found.image.as_str().to_owned();
                Finding::of(provider, Suspicion::NoAnswer { image, reason })
            };
            match &step.outcome {
                Some(Step::Ran(answer) | Step::Remembered(answer)) => findings.extend(lint_answer(provider, answer)),
                Some(Step::Failed(error)) => findings.push(no_answer(error.to_string())),
                Some(Step::Skipped(_)) | None => {}
            }
        }
    }
    // One answer may do for several images.
    let mut seen: Vec<Finding> = Vec::new();
    findings.into_iter().for_each(|finding| {
        if !seen.contains(&finding) {
            seen.push(finding)
        }
    });
    Ok(seen)
}

fn print(
    printer: &mut Printer,
    format: Format,
    mistakes: &[String],
    wrong: &[String],
    odd: &[String],
    config: Option<&Config>,
) {
    if format != Format::Text {
        let object = json!({
            "usable": mistakes.is_empty(),
            "hash": config.map(|config| &config.hash),
            "mistakes": mistakes,
            "errors": wrong,
            "warnings": odd,
        });
        return printer.object(&object, format);
    }
    let style = style::stdout();
    let lists = [(style.bad("error:"), mistakes), (style.bad("error:"), wrong), (style.warning("warning:"), odd)];
    for (lead, lines) in lists {
        lines.iter().for_each(|line| printer.line(format!("{lead} {}", credlet_api::visible(line))));
    }
    if let Some(config) = config {
        printer.line(format!("{} providers, {}", config.providers.len(), config.hash));
    }
}
