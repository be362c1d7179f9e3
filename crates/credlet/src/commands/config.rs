mod check;
mod resolve;

use clap::Subcommand;

use super::Outcome;
use crate::args::GlobalArgs;

/// Resolve and check the kubeconfig
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Resolve(resolve::ResolveArgs),
    Check(check::CheckArgs),
}

pub(crate) fn run(args: ConfigArgs, global: &GlobalArgs) -> Outcome {
    match args.command {
        ConfigCommand::Resolve(args) => resolve::run(args, global),
        ConfigCommand::Check(args) => check::run(args, global),
    }
}
