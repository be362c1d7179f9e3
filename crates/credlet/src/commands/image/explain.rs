use credlet_image::TraceLine;

use super::super::Outcome;
use super::json;
use super::provider_args::{PodArgs, ProviderArgs};
use crate::args::GlobalArgs;
use crate::exit::ExitStatus;
use crate::printer::{OutputArgs, OutputFormat, Printer, style};
use crate::runtime;

/// Explain the credentials for an image: which providers are run, and what of their responses is used
///
/// Exits with code 0 if there is a credential, and with code 3 if the image would be pulled anonymously.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Image to explain, as in a pod
    image: String,
    #[command(flatten)]
    providers: ProviderArgs,
    #[command(flatten)]
    pod: PodArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: Args, global: &GlobalArgs) -> Outcome {
    runtime::run(global.with_timeout(async {
        let ready = args.providers.load(&args.pod, global).await?;
        let look_up = ready.look_up(&args.image).await?;
        let mut printer = Printer::default();
        match args.output.format {
            OutputFormat::Text => {
                printer.untrusted_line(&format!("{} is normalised to {}", args.image, look_up.image));
                for step in &look_up.trace.steps {
                    printer.line("");
                    printer.untrusted_line(&step.provider.to_string());
                    step.lines().iter().for_each(|line| printer.line(format!("  {}", styled(line))));
                }
                let count = look_up.credentials.len();
                printer.line(match count {
                    0 => "\nThe image would be pulled anonymously.".to_owned(),
                    1 => "\nOne credential would be tried.".to_owned(),
                    _ => format!("\n{count} credentials would be tried, one after the other."),
                });
                let no_account = look_up.credentials.iter().any(|found| {
                    !matches!(&found.origin, credlet_image::CredentialOrigin::Provider { account: Some(_), .. })
                });
                if no_account {
                    printer.line(
                        "An image that is pulled without a service account is accessible to every pod of the node.",
                    );
                }
            }
            format => printer.object(&json::trace(&look_up), format),
        }
        printer.finish()?;
        Ok(if look_up.credentials.is_empty() { ExitStatus::NoCredential } else { ExitStatus::Success })
    }))
}

fn styled(line: &TraceLine) -> String {
    let (style, text) = (style::stdout(), credlet_api::escape_line(&line.text));
    match line.success {
        Some(true) => format!("{} {text}", style.good("✓")),
        Some(false) => format!("{} {text}", style.bad("✗")),
        None => format!("{} {text}", style.strong("hint:")),
    }
}
