//! Test support for all crates. Not published.
//!
//! A typical test: a [`LeakCheck`](logs::LeakCheck) creates secrets, a [`TestPlugin`](plugin::TestPlugin) prints them, a
//! [`FakeApiServer`](server::FakeApiServer) records which credential each request had, and the check fails the test when it is
//! dropped if a secret appeared in a log line or an error.
//!
//! | module | content |
//! |---|---|
//! | [`plugin`] | a scriptable credential plugin in a real process, which counts its runs |
//! | [`ca`] | a certificate authority for servers and clients |
//! | [`server`] | a fake API server with TLS that records requests and injects faults |
//! | [`issuer`] | a fake OpenID Connect issuer |
//! | [`logs`] | the leak check |
//! | [`browser`] | a minimal browser, and requests from another user |
//! | [`keyring`] | a keyring in memory |
//! | [`sandbox`] | a home directory, an isolated environment and a leak check |
//! | [`pty`] | a pseudo-terminal to run a program in |
//!
//! **A package whose tests use [`plugin`] or [`pty`]** has an example target `PACKAGE-test-plugin` (`tests/bin/test-plugin.rs`) that
//! calls [`plugin::main`]. Tests start it as the plugin and as the first process in a terminal; [`plugin::program`] finds it.
//!
//! ```
//! use credlet_testkit::{logs::LeakCheck, plugin::TestPlugin};
//!
//! let watch = LeakCheck::new();
//! let token = watch.secret("token");
//! let plugin = TestPlugin::answering(token.expose());
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

pub mod browser;
pub mod ca;
mod files;
pub mod issuer;
pub mod keyring;
pub mod logs;
pub mod plugin;
pub mod pty;
pub mod sandbox;
pub mod server;
pub mod signals;

pub use files::make_fifo;
