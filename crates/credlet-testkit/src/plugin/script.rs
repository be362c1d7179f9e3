//! The script file of a plugin.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::tunnel::TunnelProxy;

/// Steps of each run. The last entry is used by all later runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Script {
    /// Directory of counts, reports and gates. The plugin exits when it is removed, because the test is over then.
    pub(super) dir: PathBuf,
    /// Whether this process is a run of the plugin; a grandchild is not.
    pub(super) counted: bool,
    /// Number of runs before this script replaced another.
    pub(super) earlier_runs: usize,
    pub(super) runs: Vec<Vec<Step>>,
}

/// A step of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Step {
    Answer(Answer),
    Print { to: OutputStream, text: String },
    Flood { to: OutputStream, bytes: Option<u64> },
    Close { stream: OutputStream },
    Sleep { ms: u64 },
    Hang,
    WaitAt { gate: String },
    WaitForFile { path: PathBuf },
    Exit { code: i32 },
    Die { signal: i32 },
    LeaveGrandchild { keeping: Vec<OutputStream>, ms: u64, new_session: bool },
    Listen(Box<TunnelProxy>),
    LeaveListening(Box<TunnelProxy>),
    WaitForLock,
    Report { read_stdin: bool },
    AskPassword { prompt: String },
    IgnoreTermination,
    NewSession,
    Announce { path: PathBuf },
}

/// An output of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputStream {
    /// Standard output, where clients expect the credential.
    Stdout,
    /// Standard error, which clients may show to the user.
    Stderr,
}

/// An `ExecCredential` to print.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Default: the requested version, else v1.
    pub(super) api_version: Option<String>,
    pub(super) token: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
    pub(super) expiry: Option<Expiry>,
    /// URL and CA of a proxy.
    pub(super) proxy: Option<(String, Option<String>)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Expiry {
    /// Seconds from the run; negative is in the past.
    In {
        ms: i64,
    },
    At(String),
}

/// File names shared by test and plugin.
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

    /// Returns the path of the script of the program at `path`.
    pub(super) fn beside(program: &Path) -> PathBuf {
        let mut name = program.as_os_str().to_owned();
        name.push(".script.json");
        name.into()
    }
}

pub(super) const GRANDCHILD: &str = "grandchild-";

/// Every line of the count file has this length, so that the position after an atomic append gives the number of the run.
pub(super) const COUNT_LINE: usize = 11;
