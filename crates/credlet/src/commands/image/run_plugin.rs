use credlet_api::image::format_duration;
use credlet_image::{Asking, Outcome as Step, lint_answer};
use serde_json::json;

use super::super::Outcome;
use super::source::{Source, Who};
use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::{Format, FormatArg, Printer, Reveal, rows};
use crate::runtime;

/// Run one provider for an image, whether its patterns match or not, and show what it was asked and what it answered
///
/// Every fault of the provider is named. What it wrote to standard error is shown, without the secrets in it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The provider's name in the configuration
    name: String,
    /// The image
    image: String,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    output: FormatArg,
    #[command(flatten)]
    reveal: Reveal,
}

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    runtime::run(global.in_time(async {
        let ready = args.source.ready(&args.who, global).await?;
        let providers = ready.credentials.providers();
        let config = providers.iter().find(|provider| provider.name == args.name).ok_or_else(|| {
            let names: Vec<_> = providers.iter().map(|provider| provider.name.as_str()).collect();
            CliError::usage(format!("there is no provider `{}`", args.name))
                .hint(format!("there are {}", names.join(", ")))
        })?;
        let asked = ready.asking(Asking::default());
        let run = ready.credentials.run(&args.name, &args.image, &asked).await;
        let run = run.map_err(|error| CliError::usage(error.to_string()))?;
        let request = run.request.as_ref().map(|request| request.encode().trim_end().to_owned());
        let stderr = ready.credentials.last_stderr(&args.name).unwrap_or_default();
        let (answer, fault, hints) = match &run.outcome {
            Step::Ran(answer) | Step::Remembered(answer) => (Some(answer), None, Vec::new()),
            Step::Skipped(skipped) => (None, Some(skipped.to_string()), Vec::new()),
            Step::Failed(error) => (None, Some(error.to_string()), error.hints()),
        };
        let auths: Vec<_> = answer.iter().flat_map(|answer| answer.auths()).collect();
        let remarks = answer.iter().flat_map(|answer| answer.remarks()).map(ToString::to_string);
        let wider = answer.iter().flat_map(|answer| lint_answer(config, answer));
        let remarks: Vec<_> = remarks.chain(wider.map(|finding| finding.suspicion.to_string())).collect();
        let mut printer = Printer::default();
        match args.output.format {
            Format::Text => {
                if let Some(request) = &request {
                    printer.foreign(&format!("request   {request}"));
                }
                if let Some(answer) = answer {
                    let (scope, took) = (answer.scope().as_str(), format_duration(answer.took()));
                    let lifetime = format_duration(answer.lifetime());
                    printer.line(format!("answer    cacheKeyType {scope}, remembered for {lifetime}, after {took}"));
                    for (key, auth) in &auths {
                        let password = args.reveal.show(&auth.password);
                        rows(&mut printer, "  ", &[((*key).to_owned(), format!("{} {password}", auth.username))]);
                    }
                }
                remarks.iter().for_each(|remark| printer.foreign(&format!("remark    {remark}")));
                stderr.lines().for_each(|line| printer.foreign(&format!("stderr    {line}")));
            }
            format => printer.object(
                &json!({
                    "provider": args.name,
                    "request": request,
                    "answer": answer.map(|answer| json!({
                        "cacheKeyType": answer.scope().as_str(),
                        "cacheDuration": format_duration(answer.lifetime()),
                        "took": format_duration(answer.took()),
                        "auth": auths.iter().map(|(key, auth)| json!({
                            "key": key,
                            "username": auth.username,
                            "password": args.reveal.show(&auth.password),
                        })).collect::<Vec<_>>(),
                    })),
                    "fault": fault,
                    "remarks": remarks,
                    "stderr": stderr,
                }),
                format,
            ),
        }
        printer.done()?;
        match fault {
            None => Ok(Exit::Ok),
            Some(fault) => {
                Err(hints.into_iter().fold(CliError::new(Exit::NoCredential, fault), |error, hint| error.hint(hint)))
            }
        }
    }))
}
