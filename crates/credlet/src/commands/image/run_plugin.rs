use credlet_api::image::format_duration;
use credlet_image::{LookupRequest, StepOutcome, lint_response};
use serde_json::json;

use super::super::Outcome;
use super::provider_args::{PodArgs, ProviderArgs};
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{OutputArgs, OutputFormat, Printer, RevealArgs, print_rows};
use crate::runtime;

/// Run one provider for an image, whether or not its patterns match, and print request and response
///
/// Reports every problem of the response. Standard error is printed with secrets redacted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the provider in the configuration
    name: String,
    /// Image to request credentials for, as in a pod
    image: String,
    #[command(flatten)]
    providers: ProviderArgs,
    #[command(flatten)]
    pod: PodArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    reveal: RevealArgs,
}

pub(crate) fn run(args: Args, global: &GlobalArgs) -> Outcome {
    runtime::run(global.with_timeout(async {
        let session = args.providers.load(&args.pod, global).await?;
        let providers = session.credentials.providers();
        let config = providers.iter().find(|provider| provider.name == args.name).ok_or_else(|| {
            let names: Vec<_> = providers.iter().map(|provider| provider.name.as_str()).collect();
            CliError::usage(format!("unknown provider `{}`", args.name))
                .hint(format!("configured providers: {}", names.join(", ")))
        })?;
        let request = session.request(LookupRequest::default());
        let run = session.credentials.run(&args.name, &args.image, &request).await;
        let run = run.map_err(|error| CliError::usage(error.to_string()))?;
        let request = run.request.as_ref().map(|request| request.encode().trim_end().to_owned());
        let stderr = session.credentials.last_stderr(&args.name).unwrap_or_default();
        let (response, fault, hints) = match &run.outcome {
            StepOutcome::Ran(response) | StepOutcome::Cached(response) => (Some(response), None, Vec::new()),
            StepOutcome::Skipped(skipped) => (None, Some(skipped.to_string()), Vec::new()),
            StepOutcome::Failed(error) => (None, Some(error.to_string()), error.hints()),
        };
        let auths: Vec<_> = response.iter().flat_map(|response| response.auths()).collect();
        let warnings = response.iter().flat_map(|response| response.warnings()).map(ToString::to_string);
        let wider = response.iter().flat_map(|response| lint_response(config, response));
        let warnings: Vec<_> = warnings.chain(wider.map(|finding| finding.issue.to_string())).collect();
        let mut printer = Printer::default();
        match args.output.format {
            OutputFormat::Text => {
                if let Some(request) = &request {
                    printer.untrusted_line(&format!("request   {request}"));
                }
                if let Some(response) = response {
                    let (scope, took) = (response.scope().as_str(), format_duration(response.took()));
                    let lifetime = format_duration(response.lifetime());
                    printer.line(format!("response  cacheKeyType {scope}, cached for {lifetime}, after {took}"));
                    for (key, auth) in &auths {
                        let password = args.reveal.show(&auth.password);
                        print_rows(&mut printer, "  ", &[((*key).to_owned(), format!("{} {password}", auth.username))]);
                    }
                }
                warnings.iter().for_each(|warning| printer.untrusted_line(&format!("warning   {warning}")));
                stderr.lines().for_each(|line| printer.untrusted_line(&format!("stderr    {line}")));
            }
            format => printer.object(
                &json!({
                    "provider": args.name,
                    "request": request,
                    "answer": response.map(|response| json!({
                        "cacheKeyType": response.scope().as_str(),
                        "cacheDuration": format_duration(response.lifetime()),
                        "took": format_duration(response.took()),
                        "auth": auths.iter().map(|(key, auth)| json!({
                            "key": key,
                            "username": auth.username,
                            "password": args.reveal.show(&auth.password),
                        })).collect::<Vec<_>>(),
                    })),
                    "fault": fault,
                    "remarks": warnings,
                    "stderr": stderr,
                }),
                format,
            ),
        }
        printer.finish()?;
        match fault {
            None => Ok(ExitStatus::Success),
            Some(fault) => Err(hints
                .into_iter()
                .fold(CliError::new(ExitStatus::NoCredential, fault), |error, hint| error.hint(hint))),
        }
    }))
}
