//! Server side of the exec proxy, for plugin authors.
//!
//! `accept.rs` authenticates connections by peer credentials and TLS. `pipeline.rs` processes each request: it checks
//! and cleans it, calls the [`Signer`](crate::sign::Signer) and forwards it to the API server through `credlet_http`.
//!
//! [`ServerOptions`] configure a proxy, [`ProxyServer`] runs it, and [`DaemonLauncher`] finds or starts a daemon.

mod accept;
mod authority;
mod body;
mod connect;
mod control;
mod control_client;
mod daemon;
mod error_response;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod group_listener;
mod headers;
mod leases;
mod lifecycle;
mod listener;
mod log_file;
mod metrics;
mod options;
mod peer;
mod pending;
mod pipeline;
mod proxy_ca;
mod siblings;
mod upgrade;
mod user_presence;

pub use credlet_platform::daemon::{DetachableStdio, harden_process};

pub use self::control::{ParseReportError, StatusReport};
pub use self::control_client::{ControlClient, ControlError, LeaseResponse};
pub use self::daemon::{DaemonError, DaemonLauncher, StartupHandle};
pub use self::lifecycle::{ProxyServer, ServeError, ShutdownReason, serve};
pub use self::log_file::LogFile;
pub use self::options::{
    BridgeMode, GroupSocket, LoopbackOptions, ServerOptions, SocketProtocol, TargetError, UpstreamTarget, server_path,
};
pub use self::pipeline::ACCESS_LOG_TARGET;
pub use self::proxy_ca::{ProxyCa, ProxyCaError};
