use std::collections::BTreeMap;

use clap::ValueEnum;
use credlet_api::image::DockerAuths;
use credlet_image::{Found, LookUp, Outcome as Step};
use serde_json::Value;

use super::super::Outcome;
use super::object;
use super::source::{Source, Who};
use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::{Format, Printer, Reveal, rows};
use crate::runtime;
use crate::settings::warn;

/// Show what would be tried for an image, in order
///
/// Providers are run if their patterns match. text and json mask passwords unless told to --reveal them; the other formats
/// are made to be used, and show them. Without any credential the image would be pulled anonymously, and the formats that
/// cannot say so end with code 3.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The images
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    who: Who,
    /// How to print it
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    reveal: Reveal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// For scripts
    Json,
    /// The first password alone, one line for each image
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

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    runtime::run(global.in_time(async {
        let ready = args.source.ready(&args.who, global).await?;
        let mut found = Vec::new();
        for image in &args.images {
            found.push(ready.look_up(image).await?);
        }
        let mut printer = Printer::default();
        match args.output {
            Output::Text => found.iter().for_each(|look_up| text(look_up, args.reveal, &mut printer)),
            Output::Json => {
                let all: Vec<Value> = found.iter().map(|look_up| object::look_up(look_up, args.reveal)).collect();
                printer.object(&all, Format::Json);
            }
            Output::DockerConfig | Output::Podman => printer.line(docker_config(&found)?.to_config_json().as_str()),
            Output::Raw | Output::Crictl | Output::Env => {
                for look_up in &found {
                    let first = look_up.credentials.first().ok_or_else(|| anonymous(look_up))?;
                    printer.line(one(first, args.output)?);
                }
            }
        }
        failures(&found);
        printer.done()?;
        Ok(Exit::Ok)
    }))
}

fn text(look_up: &LookUp, reveal: Reveal, printer: &mut Printer) {
    printer.foreign(look_up.image.as_str());
    if look_up.credentials.is_empty() {
        printer.line("  no credentials: it would be pulled anonymously");
    }
    for (number, found) in look_up.credentials.iter().enumerate() {
        let line = |name: &str, value: String| (name.to_owned(), value);
        printer.foreign(&format!("  {}. {}", number + 1, found.key));
        rows(
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

/// What went wrong goes to standard error in every format: the others' credentials count all the same.
fn failures(found: &[LookUp]) {
    for step in found.iter().flat_map(|look_up| &look_up.trace.steps) {
        if let Some(Step::Failed(error)) = &step.outcome {
            warn(&error.to_string());
        }
    }
}

fn anonymous(look_up: &LookUp) -> CliError {
    let failed = look_up.trace.steps.iter().find_map(|step| match &step.outcome {
        Some(Step::Failed(error)) => Some(format!(": {error}")),
        _ => None,
    });
    let message = format!("there is no credential for {}{}", look_up.image, failed.unwrap_or_default());
    CliError::new(Exit::NoCredential, message).hint("`credlet image explain` says why")
}

fn one(found: &Found, output: Output) -> Result<String, CliError> {
    let (username, password) = (&found.auth.username, found.auth.password.expose());
    Ok(match output {
        Output::Crictl => format!("{username}:{password}"),
        Output::Env => {
            format!("REGISTRY_USERNAME={}\nREGISTRY_PASSWORD={}", quoted(username), quoted(password))
        }
        _ => password.to_owned(),
    })
}

/// For a shell: everything between single quotes is itself, except the single quote.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Docker knows registries and not paths or patterns: the first credential of each image's registry.
fn docker_config(found: &[LookUp]) -> Result<DockerAuths, CliError> {
    let mut auths = BTreeMap::new();
    for look_up in found {
        let first = look_up.credentials.first().ok_or_else(|| anonymous(look_up))?;
        let key = match look_up.image.registry() {
            "docker.io" => "https://index.docker.io/v1/",
            registry => registry,
        };
        auths.entry(key.to_owned()).or_insert_with(|| first.auth.clone());
    }
    Ok(DockerAuths(auths))
}
