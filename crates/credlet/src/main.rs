//! `credlet`, the command: arguments in, exit code out, and the only place that prints.
//!
//! **The path:** [`early`] looks at the name and the first words, for those who cannot wait → [`args`] is the command
//! line, all of it → [`settings`] turns the common flags into what a client is made of → [`commands`] has one file for each verb →
//! [`printer`] writes what was found, [`error`] what went wrong, [`exit`] is what a script sees of it.

mod args;
mod commands;
mod credential;
mod duration;
mod early;
mod error;
mod exit;
mod facts;
mod kubeconfig_file;
mod log;
mod printer;
mod runtime;
mod settings;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let words = early::words();
    if let Some(code) = early::run(&words) {
        return code;
    }
    // Says what is wrong with the words, or shows help, and ends the process.
    let Args { global, command } = Args::parse_from(&words);
    if !command.keeps_a_log() {
        log::install(global.verbosity);
    }
    let outcome = match command {
        Command::Plugin(args) => return commands::plugin::run(&args),
        Command::Cache(args) => return commands::cache::run(args, &global),
        Command::Proxy(args) => return commands::proxy::run(args, &global, &words),
        Command::Run(args) => commands::run::run(args, &global),
        Command::Shell(args) => commands::shell::run(args, &global),
        Command::DemoPlugin => return commands::demo::plugin(),
        command => command.run(&global),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => error.report(),
    }
}
