use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_mangen::Man;

use super::Outcome;
use crate::args::{self, GlobalArgs};
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::Printer;

/// Print the manual page, or write the pages of all commands
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Directory to write the pages of all commands to
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  credlet man | man -l -
  credlet man --dir ~/.local/share/man/man1";

pub(crate) fn run(args: ManArgs, _: &GlobalArgs) -> Outcome {
    let mut command = args::CliArgs::command();
    command.build();
    match args.dir {
        Some(dir) => write_all(&command, &dir)?,
        None => {
            let mut printer = Printer::default();
            printer.write(
                &page(&command)
                    .map_err(|error| CliError::internal(format!("failed to render the manual page: {error}")))?,
            );
            printer.finish()?;
        }
    }
    Ok(ExitStatus::Success)
}

/// Writes `credlet.1`, `credlet-get.1`, `credlet-config-check.1` …
fn write_all(command: &clap::Command, dir: &Path) -> Result<(), CliError> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = dir.join(format!("{name}.1"));
    let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, page(command)?));
    written.map_err(|error| CliError::usage(format!("failed to write {}: {error}", path.display())))?;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        write_all(verb, dir)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
