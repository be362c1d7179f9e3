//! The `credlet` command. Only this crate prints and exits.
//!
//! [`early`] dispatches on `argv[0]` and runs plugins before the command line is parsed. [`args`] defines the command line,
//! [`settings`] turns the global flags into a kubeconfig, a policy and client options, and [`commands`] has one module per
//! subcommand. [`printer`] writes the output, [`error`] the error message, and [`exit`] defines the exit codes.

mod args;
mod commands;
mod credential;
mod credential_details;
mod duration;
mod early;
mod error;
mod exit;
mod kubeconfig_file;
mod log;
mod plugins;
mod printer;
mod runtime;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{CliArgs, Command};

/// Prints a usage error or help, and exits. An error quotes arguments, which may come from a kubeconfig: if one of them contains
/// control characters, the message is printed without colours and with those characters escaped. clap's own renderer strips
/// escape sequences only when colours are off.
fn exit_with_usage(error: &clap::Error, args: &[OsString]) -> ! {
    let is_plain = |arg: &OsString| arg.to_str().is_some_and(|arg| arg.chars().all(credlet_api::is_displayable));
    if args.iter().all(is_plain) {
        error.exit();
    }
    let message = error.render().to_string();
    // A closed standard error is not an error.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), credlet_api::escape_control_chars(&message).as_bytes());
    credlet_platform::process::exit_immediately(error.exit_code())
}

fn main() -> ExitCode {
    let argv = early::args();
    if let Some(code) = early::run(&argv) {
        return code;
    }
    let CliArgs { global, command } =
        CliArgs::try_parse_from(&argv).unwrap_or_else(|error| exit_with_usage(&error, &argv));
    if !command.logs_to_file() {
        log::install(global.verbosity);
    }
    let outcome = match command {
        Command::Plugin(args) => return commands::plugin::run(&args),
        Command::Cache(args) => return commands::cache::run(args, &global),
        Command::Proxy(args) => return commands::proxy::run(args, &global, &argv),
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
