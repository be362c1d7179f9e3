//! What a plugin received.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Environment, arguments and process of a run, written by [`reports`](super::TestPlugin::reports).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PluginReport {
    /// `KUBERNETES_EXEC_INFO`, to the byte.
    pub exec_info: Option<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The arguments, without the program's name.
    pub args: Vec<String>,
    /// All of stdin; `None` if the script does not read it.
    pub stdin: Option<Vec<u8>>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Its own process.
    pub pid: i32,
    /// Its parent; `None` outside the PID namespace.
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
    /// Open descriptors, where /proc is available. Apart from the standard ones, those that the test inherited without the
    /// close-on-exec flag.
    pub open_descriptors: Vec<i32>,
}
