use credlet_image::{
    ConfigError, ImageCredentials, ImageProvidersConfig, LintFinding, LintIssue, LookupRequest, ProviderOptions,
    StepOutcome, lint, lint_response,
};
use serde_json::json;

use super::super::Outcome;
use super::provider_args::{PodArgs, ProviderArgs, platform};
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{OutputArgs, OutputFormat, Printer, style};
use crate::runtime;

/// Check a configuration of providers for errors and suspicious settings
///
/// Runs no provider unless --run is set. Exits with code 0 if there is nothing to report, with code 1 for errors (with --strict also for
/// warnings), and with code 2 if the kubelet would not start with the configuration. Suitable for CI and for ExecStartPre= of systemd.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    providers: ProviderArgs,
    /// Exit with code 1 for warnings, too
    #[arg(long)]
    strict: bool,
    /// Also run the providers that match this image and check their responses; may be repeated
    #[arg(long, value_name = "IMAGE")]
    run: Vec<String>,
    #[command(flatten)]
    pod: PodArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: Args, global: &GlobalArgs) -> Outcome {
    let config = args.providers.config()?;
    let checked = match args.providers.bin_dir() {
        Ok(bin_dir) => ImageCredentials::load(&config, bin_dir, ProviderOptions::default(), platform()).map(drop),
        // The configuration can be checked without the binaries.
        Err(_) => Ok(()),
    };
    let read = checked.and_then(|()| ImageProvidersConfig::read(&config));
    let mut printer = Printer::default();
    let exit = match read {
        Err(ConfigError { problems }) => {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            print(&mut printer, args.output.format, &lines, &[], &[], None);
            ExitStatus::Usage
        }
        Ok(config) => {
            let mut findings = lint(&config);
            if !args.run.is_empty() {
                runtime::run(global.with_timeout(async {
                    findings.extend(lint_responses(&args, &config, global).await?);
                    Ok(ExitStatus::Success)
                }))?;
            }
            let (errors, warnings): (Vec<_>, Vec<_>) =
                findings.into_iter().partition(|finding| finding.issue.is_error());
            let text = |findings: &[LintFinding]| -> Vec<String> { findings.iter().map(ToString::to_string).collect() };
            print(&mut printer, args.output.format, &[], &text(&errors), &text(&warnings), Some(&config));
            if !errors.is_empty() || args.strict && !warnings.is_empty() {
                ExitStatus::ServerError
            } else {
                ExitStatus::Success
            }
        }
    };
    printer.finish()?;
    Ok(exit)
}

/// Runs the providers and returns the findings for their responses.
async fn lint_responses(
    args: &Args,
    config: &ImageProvidersConfig,
    global: &GlobalArgs,
) -> Result<Vec<LintFinding>, CliError> {
    let session = args.providers.load(&args.pod, global).await?;
    let mut findings = Vec::new();
    for image in &args.run {
        let found = session.credentials.look_up(image, &session.request(LookupRequest::default())).await;
        let found = found.map_err(|error| CliError::usage(error.to_string()))?;
        for (step, provider) in found.trace.steps.iter().zip(&config.providers) {
            let run_failed = |reason: String| {
                let image = found.image.as_str().to_owned();
                LintFinding::for_provider(provider, LintIssue::RunFailed { image, reason })
            };
            match &step.outcome {
                Some(StepOutcome::Ran(response) | StepOutcome::Cached(response)) => {
                    findings.extend(lint_response(provider, response))
                }
                Some(StepOutcome::Failed(error)) => findings.push(run_failed(error.to_string())),
                Some(StepOutcome::Skipped(_)) | None => {}
            }
        }
    }
    // One response may serve several images.
    let mut seen: Vec<LintFinding> = Vec::new();
    findings.into_iter().for_each(|finding| {
        if !seen.contains(&finding) {
            seen.push(finding)
        }
    });
    Ok(seen)
}

fn print(
    printer: &mut Printer,
    format: OutputFormat,
    problems: &[String],
    errors: &[String],
    warnings: &[String],
    config: Option<&ImageProvidersConfig>,
) {
    if format != OutputFormat::Text {
        let object = json!({
            "usable": problems.is_empty(),
            "hash": config.map(|config| &config.hash),
            "mistakes": problems,
            "errors": errors,
            "warnings": warnings,
        });
        return printer.object(&object, format);
    }
    let style = style::stdout();
    let lists = [(style.bad("error:"), problems), (style.bad("error:"), errors), (style.warning("warning:"), warnings)];
    for (lead, lines) in lists {
        lines.iter().for_each(|line| printer.line(format!("{lead} {}", credlet_api::escape_line(line))));
    }
    if let Some(config) = config {
        printer.line(format!("{} providers, {}", config.providers.len(), config.hash));
    }
}
