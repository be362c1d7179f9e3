//! What a plugin is told, as it lies in the script file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::tunnel::Tunnel;

/// What to do, run by run. The last entry serves all later runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Script {
    /// Where counts, reports and signals go. When it has vanished the test is over, and the plugin ends too.
    pub(super) dir: PathBuf,
    /// Whether this process is a run of the plugin; a grandchild is not.
    pub(super) counted: bool,
    /// How many runs were before this script replaced another.
    pub(super) earlier_runs: usize,
    pub(super) runs: Vec<Vec<Step>>,
}

/// One thing a plugin does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Step {
    Answer(Answer),
    Print { to: Stream, text: String },
    Flood { to: Stream, bytes: Option<u64> },
    Close { stream: Stream },
    Sleep { ms: u64 },
    Hang,
    WaitAt { gate: String },
    WaitForFile { path: PathBuf },
    Exit { code: i32 },
    Die { signal: i32 },
    LeaveGrandchild { keeping: Vec<Stream>, ms: u64, new_session: bool },
    Listen(Box<Tunnel>),
    LeaveListening(Box<Tunnel>),
    WaitForLock,
    Report { read_stdin: bool },
    AskPassword { prompt: String },
    IgnoreTermination,
    NewSession,
    Announce { path: PathBuf },
}

/// An output of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Where the answer goes.
    Stdout,
    /// Where talk goes.
    Stderr,
}

/// An `ExecCredential` to print.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The asked one, else v1, if none is given.
    pub(super) api_version: Option<String>,
    pub(super) token: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    pub(super) expiry: Option<Expiry>,
    /// The URL of a proxy, and its certificate authority.
    pub(super) proxy: Option<(String, Option<String>)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Expiry {
    /// From the moment the plugin runs; negative is in the past.
    In {
        ms: i64,
    },
    At(String),
}

/// The names of files that the two sides agree on.
impl Script {
    pub(super) fn count_file(dir: &Path) -> PathBuf {
        dir.join("runs")
    }

    pub(super) fn report_file(dir: &Path, run: usize) -> PathBuf {
        dir.join(format!("report-{run}.json"))
    }

    pub(super) fn gate_reached(dir: &Path, gate: &str) -> PathBuf {
        dir.join(format!("gate-{gate}.reached"))
    }

    pub(super) fn gate_open(dir: &Path, gate: &str) -> PathBuf {
        dir.join(format!("gate-{gate}.open"))
    }

    pub(super) fn grandchild_file(dir: &Path, pid: u32) -> PathBuf {
        dir.join(format!("{GRANDCHILD}{pid}"))
    }

    /// The script of the program at this path.
    pub(super) fn beside(program: &Path) -> PathBuf {
        let mut name = program.as_os_str().to_owned();
        name.push(".script.json");
        name.into()
    }
}

pub(super) const GRANDCHILD: &str = "grandchild-";

/// Every line of the count file has this length, so that the position after an atomic append is the number of the run.
pub(super) const COUNT_LINE: usize = 11;
