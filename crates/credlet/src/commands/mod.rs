//! One file for each verb: its arguments, and what it does with them.

use crate::error::CliError;
use crate::exit::Exit;

mod answer;
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
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod token;
pub(crate) mod whoami;

/// How a verb ends.
pub(crate) type Outcome = Result<Exit, CliError>;
