use std::io::Read as _;

use clap::ValueEnum;
use credlet_api::image::DockerHelperCredential;
use credlet_image::{ImageName, LookupResult, StepOutcome};

use super::super::Outcome;
use super::provider_args::{PodArgs, ProviderArgs};
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::runtime;

/// Run as a docker credential helper that returns credentials of the providers
///
/// A link to credlet with the name docker-credential-credlet does the same: with `"credsStore": "credlet"` or
/// `"credHelpers": {"registry.example": "credlet"}` in docker's config.json, docker, podman, skopeo, buildah, crane and
/// kaniko pull with the node's providers. $CREDLET_IMAGE_CONFIG and $CREDLET_IMAGE_BIN_DIR select the providers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum)]
    verb: Verb,
    #[command(flatten)]
    providers: ProviderArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Verb {
    /// Print the credential for the registry on standard input
    Get,
    /// Print an empty list: providers have patterns, not registry names
    List,
    /// Not supported: providers store no credentials
    Store,
    /// Not supported: providers store no credentials
    Erase,
}

/// Longest server name that is read, in bytes.
const MAX_INPUT_SIZE: u64 = 64 << 10;

pub(crate) fn run(args: Args, global: &GlobalArgs) -> Outcome {
    let mut printer = Printer::default();
    match args.verb {
        Verb::List => {
            printer.line("{}");
            printer.finish()?;
            Ok(ExitStatus::Success)
        }
        Verb::Store | Verb::Erase => {
            // Docker shows the standard output of a failed helper.
            printer.line("not supported: credlet returns credentials of the node's providers and stores none");
            printer.finish()?;
            Ok(ExitStatus::ServerError)
        }
        Verb::Get => {
            let server = server_from_stdin()?;
            runtime::run(global.with_timeout(async {
                let outcome = get(args, server, global).await;
                if let Err(error) = &outcome {
                    // Docker shows the standard output of a failed helper.
                    printer.untrusted_line(error.message());
                }
                outcome
            }))
        }
    }
}

async fn get(args: Args, server: String, global: &GlobalArgs) -> Outcome {
    let mut printer = Printer::default();
    let session = args.providers.load(&PodArgs::default(), global).await?;
    let found = match probe_image(&server) {
        Some(image) => Some(session.look_up(&image).await?),
        None => None,
    };
    if let Some(error) = found.as_ref().filter(|found| found.credentials.is_empty()).and_then(provider_error) {
        return Err(error);
    }
    let exit = match found.and_then(|found| found.credentials.into_iter().next()) {
        Some(found) => {
            let credential = DockerHelperCredential {
                server_url: server,
                username: found.auth.username,
                secret: found.auth.password,
            };
            printer.write(credential.encode().as_bytes());
            ExitStatus::Success
        }
        None => {
            printer.line(DockerHelperCredential::NOT_FOUND);
            ExitStatus::ServerError
        }
    };
    printer.finish()?;
    Ok(exit)
}

/// Returns the error of a failed provider. Reporting "not found" instead would hide it behind an anonymous pull.
fn provider_error(found: &LookupResult) -> Option<CliError> {
    found.trace.steps.iter().find_map(|step| match &step.outcome {
        Some(StepOutcome::Failed(error)) => Some(CliError::new(ExitStatus::NoCredential, error.to_string())),
        _ => None,
    })
}

fn server_from_stdin() -> Result<String, CliError> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MAX_INPUT_SIZE).read_to_string(&mut text);
    read.map_err(|error| CliError::usage(format!("failed to read standard input: {error}")))?;
    Ok(text.trim().to_owned())
}

/// An image of the requested registry. Docker passes a URL, a host or a repository, and Docker Hub has three names.
fn probe_image(server: &str) -> Option<String> {
    let location = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://")).unwrap_or(server);
    let location = location.trim_end_matches('/');
    let location = location.strip_suffix("/v1").or_else(|| location.strip_suffix("/v2")).unwrap_or(location);
    let (host, path) = location.split_once('/').unwrap_or((location, ""));
    let host = if matches!(host, "index.docker.io" | "registry-1.docker.io") { "docker.io" } else { host };
    // Requests to providers contain an image, but docker passes none, so a placeholder is used.
    let path = if path.is_empty() { "library/any" } else { path };
    let image = format!("{host}/{path}");
    image.parse::<ImageName>().ok().filter(|name| name.registry() == host).map(|_| image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalises_docker_hub_aliases() {
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
            assert_eq!(probe_image(server).as_deref(), image, "{server}");
        }
    }
}
