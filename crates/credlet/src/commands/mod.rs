//! One module per subcommand: its arguments and its implementation.

use crate::error::CliError;
use crate::exit::ExitStatus;

pub(crate) mod bridge;
pub(crate) mod cache;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod get;
pub(crate) mod image;
pub(crate) mod man;
pub(crate) mod plugin;
pub(crate) mod proxy;
pub(crate) mod request;
mod response;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod token;
pub(crate) mod whoami;

/// Result of a subcommand.
pub(crate) type Outcome = Result<ExitStatus, CliError>;
