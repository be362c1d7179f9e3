//! `credlet image`: credentials of the kubelet's image credential providers.

mod api_server;
mod docker_credential;
mod explain;
mod get;
mod json;
mod lint;
mod matching;
mod provider_args;
mod run_plugin;

use clap::Subcommand;

use super::Outcome;
use crate::args::GlobalArgs;

/// Get credentials for images from the kubelet's credential providers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Get(get::Args),
    Match(matching::Args),
    Explain(explain::Args),
    Lint(lint::Args),
    RunPlugin(run_plugin::Args),
    DockerCredential(docker_credential::Args),
}

pub(crate) fn run(args: Args, global: &GlobalArgs) -> Outcome {
    match args.verb {
        Verb::Get(args) => get::run(args, global),
        Verb::Match(args) => matching::run(args),
        Verb::Explain(args) => explain::run(args, global),
        Verb::Lint(args) => lint::run(args, global),
        Verb::RunPlugin(args) => run_plugin::run(args, global),
        Verb::DockerCredential(args) => docker_credential::run(args, global),
    }
}
