//! The plugin author's half: a signer becomes a proxy.
//!
//! **The path of a request:** [`listener`](self) → who is it (peer credentials, TLS) → `stack.rs`, one list of layers →
//! a [`Signer`](crate::sign::Signer) → credlet-client's connections → the API server, and all the way back.
//!
//! **Three names to know:** [`Options`] say what to serve and where, [`Server`] serves it, [`Daemon`] finds the one that
//! does already or starts it.

mod accept;
mod ask;
mod authority;
mod body;
mod connect;
mod control;
mod daemon;
mod headers;
mod leases;
mod listener;
mod local;
mod log;
mod metrics;
mod neighbours;
mod options;
mod peer;
mod person;
mod process;
mod rescue;
mod run;
mod shared;
mod stack;
mod upgrade;

pub use self::ask::{Answer, Control, ControlError};
pub use self::control::{NoReport, Report};
pub use self::daemon::{Beginning, Daemon, DaemonError};
pub use self::local::{Authority, AuthorityError};
pub use self::log::LogFile;
pub use self::options::{ForGroup, Guise, Hop, Loopback, Options, Target, TargetError, path_of};
pub use self::process::{Stdio, close_to_others};
pub use self::run::{Ended, ServeError, Server, serve};
pub use self::stack::ACCESS;
