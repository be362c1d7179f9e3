use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Outcome;
use crate::args::{self, Global};
use crate::exit::Exit;
use crate::printer::Printer;

/// Print a script that completes credlet's words in a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  credlet completions bash > ~/.local/share/bash-completion/completions/credlet
  credlet completions zsh > \"${fpath[1]}/_credlet\"
  credlet completions fish > ~/.config/fish/completions/credlet.fish";

pub(crate) fn run(args: Args, _: &Global) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::Args::command(), "credlet", &mut script);
    let mut printer = Printer::default();
    printer.write(&script);
    printer.done()?;
    Ok(Exit::Ok)
}
