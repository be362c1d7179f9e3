//! Operating system interface of credlet.
//!
//! The other crates take time, environment and processes from here, through [`Clock`], [`Env`] and [`ProcessRunner`], which are
//! passed to constructors. Functions that need no state are in [`fs`] (bounded reads, private directories), [`peer`] (owner
//! of a loopback connection), [`local_socket`], [`net`] (listeners), [`session_env`] (variables that no credential depends on), [`hardening`] (core
//! dumps and debuggers), [`daemon`] (processes in the background), [`dirs`] (base directories), [`process`] (identity of running processes), [`terminal`]
//! (prompts for secrets) and [`signals`].
//!
//! ```
//! use credlet_platform::{Env, SystemEnv, fs};
//!
//! let home = SystemEnv.home_dir().ok_or("no home directory")?;
//! match fs::read_bounded(&home.join(".kube/config"), 1 << 20) {
//!     Ok(bytes) => assert!(bytes.len() <= 1 << 20),
//!     Err(error) => assert!(!error.to_string().is_empty()),
//! }
//! # Ok::<(), &str>(())
//! ```

#[cfg(not(unix))]
compile_error!("credlet-platform supports Unix only");

pub mod account;
mod clock;
pub mod daemon;
pub mod dirs;
mod env;
pub mod fs;
pub mod hardening;
pub mod local_socket;
#[cfg(target_os = "macos")]
mod macos;
pub mod net;
pub mod peer;
pub mod process;
mod runner;
pub mod session_env;
pub mod signals;
#[cfg(target_os = "linux")]
mod sock_diag;
pub mod store;
#[cfg(any(test, target_os = "macos"))]
mod tcp_pcblist;
pub mod terminal;

pub use clock::{Clock, ManualClock, SystemClock};
pub use env::{Env, FixedEnv, SystemEnv};
pub use runner::{
    CommandSpec, CompletedProcess, ForegroundChild, OsError, OutputEndFn, ProcessExit, ProcessOutput, ProcessRunner,
    RunError, RunLimits, RunOutcome, RunningProcess, SpawnedDaemon, StderrFn, StderrSink, StdinSource, SystemRunner,
    close_fds, close_inherited_fds, exec_replace, inheritable_fds, send_hangup, spawn_daemon, spawn_detached,
    spawn_foreground, terminate_process,
};
