use std::io::Read as _;

use clap::ValueEnum;
use credlet_api::image::HelperCredential;
use credlet_image::{ImageName, LookUp, Outcome as Step};

use super::super::Outcome;
use super::source::{Source, Who};
use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::runtime;

/// Be a docker credential helper that asks the providers
///
/// A link to this program that is called docker-credential-credlet does the same: with `"credsStore": "credlet"` or
/// `"credHelpers": {"registry.example": "credlet"}` in docker's config.json, docker, podman, skopeo, buildah, crane and
/// kaniko pull with the node's providers. Which those are is in $CREDLET_IMAGE_CONFIG and $CREDLET_IMAGE_BIN_DIR.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum)]
    verb: Verb,
    #[command(flatten)]
    source: Source,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Verb {
    /// Print the credential for the registry that standard input names
    Get,
    /// Print the registries that are known by name: none, since providers have patterns
    List,
    /// Refused: providers keep their credentials themselves
    Store,
    /// Refused: providers keep their credentials themselves
    Erase,
}

/// More than any registry's name has.
const LONGEST: u64 = 64 << 10;

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    let mut printer = Printer::default();
    match args.verb {
        Verb::List => {
            printer.line("{}");
            printer.done()?;
            Ok(Exit::Ok)
        }
        Verb::Store | Verb::Erase => {
            // Docker shows what stands on standard output.
            printer.line("credlet asks the node's providers and stores nothing itself");
            printer.done()?;
            Ok(Exit::Refused)
        }
        Verb::Get => {
            let server = server_from_stdin()?;
            runtime::run(global.in_time(async {
                let outcome = get(args, server, global).await;
                if let Err(error) = &outcome {
                    // Docker shows what stands on standard output.
                    printer.foreign(error.message());
                }
                outcome
            }))
        }
    }
}

async fn get(args: Args, server: String, global: &Global) -> Outcome {
    let mut printer = Printer::default();
    let ready = args.source.ready(&Who::default(), global).await?;
    let found = match probe(&server) {
        Some(image) => Some(ready.look_up(&image).await?),
        None => None,
    };
    if let Some(error) = found.as_ref().filter(|found| found.credentials.is_empty()).and_then(failure) {
        return Err(error);
    }
    let exit = match found.and_then(|found| found.credentials.into_iter().next()) {
        Some(found) => {
            let credential =
                HelperCredential { server_url: server, username: found.auth.username, secret: found.auth.password };
            printer.write(credential.encode().as_bytes());
            Exit::Ok
        }
        None => {
            printer.line(HelperCredential::NOT_FOUND);
            Exit::Refused
        }
    };
    printer.done()?;
    Ok(exit)
}

/// A provider that failed is something else than one that has nothing: an anonymous attempt would hide the reason.
fn failure(found: &LookUp) -> Option<CliError> {
    found.trace.steps.iter().find_map(|step| match &step.outcome {
        Some(Step::Failed(error)) => Some(CliError::new(Exit::NoCredential, error.to_string())),
        _ => None,
    })
}

fn server_from_stdin() -> Result<String, CliError> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(LONGEST).read_to_string(&mut text);
    read.map_err(|error| CliError::usage(format!("standard input cannot be read: {error}")))?;
    Ok(text.trim().to_owned())
}

/// An image of the registry that docker means: it passes a URL, a host or a repository, and the hub has three names.
fn probe(server: &str) -> Option<String> {
    let place = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://")).unwrap_or(server);
    let place = place.trim_end_matches('/');
    let place = place.strip_suffix("/v1").or_else(|| place.strip_suffix("/v2")).unwrap_or(place);
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let host = if matches!(host, "index.docker.io" | "registry-1.docker.io") { "docker.io" } else { host };
    // Docker names no image, and providers are asked for one: the registry's name stands for all of them.
    let path = if path.is_empty() { "library/any" } else { path };
    let image = format!("{host}/{path}");
    image.parse::<ImageName>().ok().filter(|name| name.registry() == host).map(|_| image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_has_three_names_and_a_url_is_a_host() {
        for (server, image) in [
            ("https://index.docker.io/v1/", Some("docker.io/library/any")),
            ("index.docker.io", Some("docker.io/library/any")),
            ("docker.io", Some("docker.io/library/any")),
            ("https://r.io:5000", Some("r.io:5000/library/any")),
            ("r.io/team/app", Some("r.io/team/app")),
            ("localhost:5000", Some("localhost:5000/library/any")),
            ("", None),
            ("not a host", None),
        ] {
            assert_eq!(probe(server).as_deref(), image, "{server}");
        }
    }
}
