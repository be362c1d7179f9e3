//! `credlet`, the command: arguments in, exit code out, and the only place that prints.

mod args;
mod commands;
mod printer;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match args::Args::parse().command {
        args::Command::Demo => commands::demo::run(),
        args::Command::DemoPlugin => commands::demo::plugin(),
    }
}
