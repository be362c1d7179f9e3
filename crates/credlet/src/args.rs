use clap::{Parser, Subcommand};

/// Kubernetes exec credentials from one small binary.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows what it is like to have a credential plugin run once, on a plugin of its own. Takes about ten seconds.
    Demo,
    /// The plugin that the demo runs.
    #[command(hide = true)]
    DemoPlugin,
}
