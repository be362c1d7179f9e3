//! The plugin's side: what a plugin author writes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::plugin::{self, Failure};
use credlet_core::{Clock as _, Env as _, SystemClock, SystemEnv};

/// Where the stage tells the plugin what to do, and the plugin counts its runs.
pub(super) const STATE_DIR: &str = "CREDLET_DEMO_STATE";

const SLOW: Duration = Duration::from_millis(200);
const LIFETIME: Duration = Duration::from_secs(3);

/// What the plugin does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    Answer,
    Fail,
    Hang,
}

impl Behaviour {
    pub(super) fn write(self, dir: &Path) -> std::io::Result<()> {
        fs::write(dir.join("behaviour"), [self as u8])
    }

    fn read(dir: &Path) -> Self {
        match fs::read(dir.join("behaviour")).as_deref() {
            Ok([behaviour]) if *behaviour == Self::Fail as u8 => Self::Fail,
            Ok([behaviour]) if *behaviour == Self::Hang as u8 => Self::Hang,
            _ => Self::Answer,
        }
    }
}

/// How often the plugin was run.
pub(super) fn runs(dir: &Path) -> usize {
    fs::read(dir.join("runs")).map(|runs| runs.len()).unwrap_or_default()
}

/// The plugin.
pub(crate) fn main() -> ExitCode {
    plugin::main(|_: ExecInfo| {
        let dir = SystemEnv
            .var(STATE_DIR)
            .map(PathBuf::from)
            .ok_or_else(|| Failure::new("this is the plugin that `credlet demo` runs").hint("run `credlet demo`"))?;
        fs::OpenOptions::new().create(true).append(true).open(dir.join("runs"))?.write_all(b".")?;
        std::thread::sleep(SLOW);
        match Behaviour::read(&dir) {
            Behaviour::Answer => {
                let expires = SystemClock::new().now() + LIFETIME;
                Ok(ExecCredentialStatus::token(format!("demo-{}", expires.as_nanosecond())).expiring(expires))
            }
            Behaviour::Fail => Err(Failure::new("please log in")),
            Behaviour::Hang => loop {
                std::thread::park();
            },
        }
    })
}
