//! Tests of the command line: output, error messages and exit codes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bridge;
mod config;
mod doctor;
mod exec_proxy;
mod exits;
mod get;
mod hardening;
mod help;
mod no_home;
mod plugin_policy;
mod proxy;
mod request;
mod shell;
mod support;
mod terminal;
mod token;
mod whoami;
