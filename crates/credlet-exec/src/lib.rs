//! Runs Kubernetes exec credential plugins.
//!
//! [`ExecPlugin`] holds configuration, policy and limits, and runs the plugin once per fetch: it finds the program, checks
//! the policy, builds the environment, starts the process and validates its output. [`RefreshingCache`] shares one fetch
//! among all concurrent callers, caches the [`Credential`], refreshes it ahead of expiry and backs off after failures.
//! [`Error`] tells what failed and what the user can do.
//!
//! ```no_run
//! use credlet_api::exec::{ApiVersion, ExecConfig};
//! use credlet_exec::{ExecOptions, ExecPlugin, Platform, RefreshPolicy, RefreshingCache};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ExecConfig::new("aws", ApiVersion::V1).args(["eks", "get-token", "--cluster-name", "blue"]);
//! let platform = Platform::system();
//! let plugin = ExecPlugin::new(config, None, ExecOptions::default(), platform.clone())?;
//! let cache = RefreshingCache::new(plugin, platform.clock, RefreshPolicy::default());
//!
//! // The first call runs the plugin, once for all concurrent callers.
//! let credential = cache.get().await?;
//! assert!(credential.value().token.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! Time, environment and processes are injected: constructors take a [`Platform`] or its parts [`Clock`], [`Env`] and
//! [`ProcessRunner`]. This crate does not print, exit the process or install global state.

#[cfg(feature = "cache")]
pub mod cache;
mod credential;
mod environment;
mod error;
mod exec;
mod exec_proxy;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod keypair;
mod kuberc;
mod lookup;
mod observer;
mod policy;
pub mod prometheus;
mod rate_limit;
mod refresh;
mod sanitize;
pub mod store;
mod user_list;

pub use credential::{CertificateValidity, ClientCertificate, Credential};
#[doc(no_inline)]
pub use credlet_platform::{
    Clock, CommandSpec, CompletedProcess, Env, FixedEnv, ForegroundChild, ManualClock, OsError, OutputEndFn,
    ProcessExit, ProcessOutput, ProcessRunner, RunError, RunLimits, RunOutcome, RunningProcess, SpawnedDaemon,
    StderrFn, StderrSink, StdinSource, SystemClock, SystemEnv, SystemRunner, close_inherited_fds, exec_replace,
    send_hangup, spawn_daemon, spawn_detached, spawn_foreground, terminate_process,
};
pub use environment::{EnvInheritance, build_env};
pub use error::{Error, InvalidOutput, NotInteractive};
pub use exec::{ExecOptions, ExecPlugin, Platform};
pub use exec_proxy::{LockFile, LockFileError, PluginProxy};
pub use keypair::KeyPairError;
pub use kuberc::{PolicyFileError, plugin_policy};
pub use lookup::{LookupError, find_program};
pub use observer::{CallStatus, NoopObserver, PluginEvent, PluginObserver};
pub use policy::{PluginPolicy, PolicyError, ProgramError, is_plugin_run, program_policy, resolve_program};
pub use refresh::{CachedValue, FetchReason, FetchedValue, RefreshPolicy, RefreshingCache, Source};
pub use sanitize::{last_line, sanitize_output};
pub use user_list::{UserList, UserListError};
