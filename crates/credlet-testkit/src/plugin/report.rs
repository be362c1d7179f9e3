//! What a plugin was given.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The surroundings in which a plugin found itself, written by [`reports`](super::Plugin::reports).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// `KUBERNETES_EXEC_INFO`, to the byte.
    pub exec_info: Option<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The arguments, without the program's name.
    pub args: Vec<String>,
    /// What stdin held, to its end; `None` if the plugin was not told to read it.
    pub stdin: Option<Vec<u8>>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Its own process.
    pub pid: i32,
    /// Its parent.
    pub parent: Option<i32>,
    /// Its process group.
    pub process_group: i32,
    /// Its session; 0 if that is outside the PID namespace the test runs in.
    pub session: i32,
    /// The process group that holds the terminal on stdin, if there is one.
    pub foreground_group: Option<i32>,
    /// Whether stdin is a terminal.
    pub stdin_is_terminal: bool,
    /// Whether stdout is a terminal.
    pub stdout_is_terminal: bool,
    /// Whether stderr is a terminal.
    pub stderr_is_terminal: bool,
    /// Which descriptors were open, where the system says so. Beside the three standard ones these are the ones that
    /// the test itself inherited without the close-on-exec flag.
    pub open_descriptors: Vec<i32>,
}
