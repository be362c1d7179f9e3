//! Image credentials: the kubelet's providers, for people and for programs that are no kubelet.

mod accounts;
mod docker_credential;
mod explain;
mod get;
mod lint;
mod matching;
mod object;
mod run_plugin;
mod source;

use clap::Subcommand;

use super::Outcome;
use crate::args::Global;

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

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    match args.verb {
        Verb::Get(args) => get::run(args, global),
        Verb::Match(args) => matching::run(args),
        Verb::Explain(args) => explain::run(args, global),
        Verb::Lint(args) => lint::run(args, global),
        Verb::RunPlugin(args) => run_plugin::run(args, global),
        Verb::DockerCredential(args) => docker_credential::run(args, global),
    }
}
