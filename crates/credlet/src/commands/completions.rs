use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Outcome;
use crate::args::{self, GlobalArgs};
use crate::exit::ExitStatus;
use crate::printer::Printer;

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete in
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  credlet completions bash > ~/.local/share/bash-completion/completions/credlet
  credlet completions zsh > \"${fpath[1]}/_credlet\"
  credlet completions fish > ~/.config/fish/completions/credlet.fish";

pub(crate) fn run(args: CompletionsArgs, _: &GlobalArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::CliArgs::command(), "credlet", &mut script);
    let mut printer = Printer::default();
    printer.write(&script);
    printer.finish()?;
    Ok(ExitStatus::Success)
}
