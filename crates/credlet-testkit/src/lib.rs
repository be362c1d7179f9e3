//! Parts that all tests of credlet use. Never published, linked into test binaries only.
//!
//! A test's way through it: a [`Watch`](logs::Watch) makes the secrets, a [`Plugin`](plugin::Plugin) hands them out, a
//! [`Server`](server::Server) says who came with which, and when the watch goes out of scope it fails the test if a
//! secret was seen in a log line or an error.
//!
//! | module | what it gives |
//! |---|---|
//! | [`plugin`] | a credential plugin that does as it is told, in a real process, and counts its runs |
//! | [`ca`] | a certificate authority for servers and clients |
//! | [`server`] | a TLS API server that reports what it saw and misbehaves on request |
//! | [`logs`] | the log check |
//! | [`pty`] | a terminal to run a program in |
//!
//! **The test binary re-executes itself**, as the plugin and as the first process in a terminal: `start.rs` explains how.
//!
//! ```
//! use credlet_testkit::{logs::Watch, plugin::Plugin};
//!
//! let watch = Watch::new();
//! let token = watch.secret("token");
//! let plugin = Plugin::answering(token.expose());
//!
//! # #[expect(clippy::disallowed_methods, reason = "stands for the runner under test")]
//! let output = std::process::Command::new(plugin.command()).output()?;
//! assert!(String::from_utf8_lossy(&output.stdout).contains(token.expose()));
//! assert_eq!(plugin.runs(), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and this crate plays the outside world that others receive by the front door"
)]

pub mod ca;
pub mod logs;
pub mod plugin;
pub mod pty;
pub mod server;
pub mod signals;
mod start;
