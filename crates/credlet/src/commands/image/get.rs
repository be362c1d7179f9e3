use std::collections::BTreeMap;

use clap::ValueEnum;
use credlet_api::image::DockerAuths;
use credlet_image::{ImageCredential, LookupResult, StepOutcome};
use serde_json::Value;

use super::super::Outcome;
use super::json;
use super::provider_args::{PodArgs, ProviderArgs};
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{OutputFormat, Printer, RevealArgs, print_rows};
use crate::runtime;
use crate::settings::warn;

/// Print the credentials for an image, in the order in which they are tried
///
/// Runs the providers with a matching pattern. The formats text and json mask passwords unless --reveal is set; the other formats print
/// them. If there is no credential, the image would be pulled anonymously, and the formats other than text and json exit with code 3.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Images to resolve, as in a pod
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    #[command(flatten)]
    providers: ProviderArgs,
    #[command(flatten)]
    pod: PodArgs,
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    reveal: RevealArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Human-readable
    #[default]
    Text,
    /// JSON
    Json,
    /// The first password only, one line per image
    Raw,
    /// A config.json for docker, skopeo, buildah, kaniko and others
    DockerConfig,
    /// The first credential, for crictl pull --creds
    Crictl,
    /// An auth.json for podman --authfile
    Podman,
    /// The first credential as shell variables
    Env,
}

const EXAMPLES: &str = "\
Examples:
  credlet image get registry.example/team/app --config /etc/kubernetes/providers.yaml --bin-dir /usr/libexec/providers
  crictl pull --creds \"$(credlet image get -o crictl IMAGE)\" IMAGE
  credlet image get -o docker-config IMAGE > ~/.docker/config.json
  credlet image get -o json --service-account shop/robot IMAGE | jq '.[0].credentials'";

pub(crate) fn run(args: Args, global: &GlobalArgs) -> Outcome {
    runtime::run(global.with_timeout(async {
        let ready = args.providers.load(&args.pod, global).await?;
        let mut found = Vec::new();
        for image in &args.images {
            found.push(ready.look_up(image).await?);
        }
        let mut printer = Printer::default();
        match args.output {
            Output::Text => found.iter().for_each(|look_up| text(look_up, args.reveal, &mut printer)),
            Output::Json => {
                let all: Vec<Value> = found.iter().map(|look_up| json::lookup(look_up, args.reveal)).collect();
                printer.object(&all, OutputFormat::Json);
            }
            Output::DockerConfig | Output::Podman => printer.line(docker_config(&found)?.to_config_json().as_str()),
            Output::Raw | Output::Crictl | Output::Env => {
                for look_up in &found {
                    let first = look_up.credentials.first().ok_or_else(|| no_credential_error(look_up))?;
                    printer.line(format_credential(first, args.output)?);
                }
            }
        }
        warn_failures(&found);
        printer.finish()?;
        Ok(ExitStatus::Success)
    }))
}

fn text(look_up: &LookupResult, reveal: RevealArgs, printer: &mut Printer) {
    printer.untrusted_line(look_up.image.as_str());
    if look_up.credentials.is_empty() {
        printer.line("  no credentials: the image would be pulled anonymously");
    }
    for (number, found) in look_up.credentials.iter().enumerate() {
        let line = |name: &str, value: String| (name.to_owned(), value);
        printer.untrusted_line(&format!("  {}. {}", number + 1, found.key));
        print_rows(
            printer,
            "     ",
            &[
                line("from", found.origin.to_string()),
                line("username", found.auth.username.clone()),
                line("password", reveal.show(&found.auth.password)),
            ],
        );
    }
}

/// Prints errors of providers to standard error. They do not affect the credentials of others.
fn warn_failures(found: &[LookupResult]) {
    for step in found.iter().flat_map(|look_up| &look_up.trace.steps) {
        if let Some(StepOutcome::Failed(error)) = &step.outcome {
            warn(&error.to_string());
        }
    }
}

fn no_credential_error(look_up: &LookupResult) -> CliError {
    let failed = look_up.trace.steps.iter().find_map(|step| match &step.outcome {
        Some(StepOutcome::Failed(error)) => Some(format!(": {error}")),
        _ => None,
    });
    let message = format!("no credential found for {}{}", look_up.image, failed.unwrap_or_default());
    CliError::new(ExitStatus::NoCredential, message).hint("run `credlet image explain` for the reasons")
}

fn format_credential(found: &ImageCredential, output: Output) -> Result<String, CliError> {
    let (username, password) = (&found.auth.username, found.auth.password.expose());
    Ok(match output {
        Output::Crictl => format!("{username}:{password}"),
        Output::Env => {
            format!("REGISTRY_USERNAME={}\nREGISTRY_PASSWORD={}", shell_quote(username), shell_quote(password))
        }
        _ => password.to_owned(),
    })
}

/// Quotes for a POSIX shell.
fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns the first credential of each image by registry, because docker supports neither paths nor patterns.
fn docker_config(found: &[LookupResult]) -> Result<DockerAuths, CliError> {
    let mut auths = BTreeMap::new();
    for look_up in found {
        let first = look_up.credentials.first().ok_or_else(|| no_credential_error(look_up))?;
        let key = match look_up.image.registry() {
            "docker.io" => "https://index.docker.io/v1/",
            registry => registry,
        };
        auths.entry(key.to_owned()).or_insert_with(|| first.auth.clone());
    }
    Ok(DockerAuths(auths))
}
