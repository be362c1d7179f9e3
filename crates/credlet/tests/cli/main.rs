//! Whole conversations with the command: what goes in, what comes out on either side, and the exit code.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bridge;
mod config;
mod doctor;
mod exec_proxy;
mod exits;
mod get;
mod help;
mod proxy;
mod request;
mod shell;
mod support;
mod terminal;
mod token;
mod whoami;
