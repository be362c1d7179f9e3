mod check;
mod plugin_args;
mod resolve;

use clap::Subcommand;

use super::Outcome;
use crate::args::Global;

/// See what the kubeconfig says, and what is wrong with it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Resolve(resolve::Args),
    Check(check::Args),
}

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    match args.verb {
        Verb::Resolve(args) => resolve::run(args, global),
        Verb::Check(args) => check::run(args, global),
    }
}
