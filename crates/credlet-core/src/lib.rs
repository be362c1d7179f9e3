//! Running a foreign program once, safely.
//!
//! **The path:** an [`ExecPlugin`] (configuration, policy, limits) is the source of a [`Flight`] → `get()` gives the
//! fresh [`Credential`] by one atomic load, or lets everybody wait for one run → a [`Runner`] starts the program and is
//! not at its mercy → its answer is checked whole, then published, or not at all.
//!
//! **Three names to know:** [`ExecPlugin`], [`Flight`], [`Error`].
//!
//! ```no_run
//! use credlet_api::exec::{ApiVersion, ExecConfig};
//! use credlet_core::{ExecOptions, ExecPlugin, Flight, Patience, World};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ExecConfig::new("aws", ApiVersion::V1).args(["eks", "get-token", "--cluster-name", "blue"]);
//! let world = World::system();
//! let plugin = ExecPlugin::new(config, None, ExecOptions::default(), world.clone())?;
//! let flight = Flight::new(plugin, world.clock, Patience::default());
//!
//! // Nothing has been run yet. This runs the plugin, once for everybody who asks meanwhile.
//! let credential = flight.get().await?;
//! assert!(credential.value().token.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! The outside world comes in by the front door: [`Clock`], [`Env`] and [`Runner`] are given to constructors. This crate
//! prints nothing of its own, exits nothing, and installs nothing global.

#[cfg(not(unix))]
compile_error!("credlet-core needs process groups and terminals as Unix has them; other systems are not supported yet");

mod clock;
mod credential;
mod env;
mod environment;
mod error;
mod exec;
mod exec_proxy;
mod flight;
mod foreign;
mod hint;
mod keypair;
mod kuberc;
mod lookup;
mod observer;
mod policy;
pub mod prometheus;
mod runner;

pub use clock::{Clock, ManualClock, SystemClock};
pub use credential::{ClientCertificate, Credential, Leaf};
pub use env::{Env, FixedEnv, SystemEnv};
pub use environment::{Inherit, surroundings};
pub use error::{Error, Nonsense, Obstacle};
pub use exec::{ExecOptions, ExecPlugin, World};
pub use exec_proxy::{LockFile, NoLockFile, Proxy};
pub use flight::{Entry, Fetched, Flight, Patience, Source, Why};
pub use foreign::{harmless, last_line};
pub use keypair::KeyPairError;
pub use kuberc::{PolicyFileError, plugin_policy};
pub use lookup::{LookupError, look_up};
pub use observer::{CallStatus, Event, NoObserver, Observer};
pub use policy::{PluginPolicy, PolicyError};
pub use runner::{
    Answer, AnswerEnd, Attached, Ended, Finished, Limits, OsError, Process, Program, RunError, Runner, Started,
    Starting, StderrFn, StderrSink, Stdin, SystemRunner, ask_to_end, become_program, close_inherited, hang_up,
    start_attached, start_detached, start_reporting,
};
