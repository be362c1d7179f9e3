//! Finds a running daemon or starts one, for plugins that exit after printing their credential.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use credlet_exec::{
    Clock as _, Env as _, EnvInheritance, OsError, ProcessExit, SpawnedDaemon, SystemClock, SystemEnv,
    close_inherited_fds, spawn_daemon,
};
use credlet_platform::daemon::{DetachableStdio, harden_process};
use tokio::sync::oneshot;

use super::control_client::{ControlClient, ControlError, LeaseResponse};
use super::lifecycle::ServeError;
use super::listener;
use crate::dir::{DirError, ProxyDir};

/// Finds the daemon of a directory, or starts it.
///
/// Concurrent plugins start one daemon: one of them starts it while the others wait.
#[derive(Clone, Debug)]
pub struct DaemonLauncher {
    /// Directory of the daemon.
    pub dir: ProxyDir,
    /// Program to start, usually the current executable.
    pub program: PathBuf,
    /// Arguments that make the program run as the daemon, which must call [`StartupHandle::begin`] first.
    pub args: Vec<OsString>,
    /// Environment variables that the daemon inherits. Default: all.
    pub inherit: EnvInheritance,
    /// Time limit for finding or starting the daemon, 25 s by default. A daemon that does not listen by then is killed.
    /// Clients give a plugin 30 s; if the client killed the plugin first, the daemon would stay.
    pub timeout: Duration,
}

/// Result of a start.
enum StartOutcome {
    Ready,
    /// The message of the daemon.
    Failed(String),
    /// Killed by SIGKILL before it reported. Only this is retried: a crash would probably repeat.
    Killed,
}

/// Delays before each attempt to start.
const START_DELAYS: [Duration; 4] =
    [Duration::ZERO, Duration::ZERO, Duration::from_millis(500), Duration::from_secs(1)];

/// Report of a daemon that listens.
const READY: &str = "ready";

impl DaemonLauncher {
    /// Uses the default environment and timeout.
    pub fn new(dir: ProxyDir, program: PathBuf, args: Vec<OsString>) -> Self {
        Self { dir, program, args, inherit: EnvInheritance::ALL, timeout: Duration::from_secs(25) }
    }

    /// Returns the credential for a client that holds this lock file, or for the port if `lock_file` is `None`.
    ///
    /// # Errors
    /// If no daemon is running and none can be started.
    pub async fn lease(&self, lock_file: Option<&Path>) -> Result<LeaseResponse, DaemonError> {
        let mut starting = None;
        let result = tokio::time::timeout(self.timeout, self.find_or_start(lock_file, &mut starting)).await;
        result.unwrap_or_else(|_| {
            // Kill it, or it would stay beside the daemon that the next plugin starts.
            starting.into_iter().for_each(SpawnedDaemon::kill);
            Err(DaemonError::TimedOut { limit: self.timeout })
        })
    }

    /// `starting` is a started process that has not reported yet.
    async fn find_or_start(
        &self,
        lock_file: Option<&Path>,
        starting: &mut Option<SpawnedDaemon>,
    ) -> Result<LeaseResponse, DaemonError> {
        // The usual case: the daemon is running.
        if let Some(response) = self.try_lease(lock_file).await? {
            return Ok(response);
        }
        let _lock = self.lock_start().await?;
        let mut failure = "it exited immediately".to_owned();
        // The previous holder of the lock may have started it. An exiting daemon makes room for a new one.
        for delay in START_DELAYS {
            if let Some(response) = self.try_lease(lock_file).await? {
                return Ok(response);
            }
            SystemClock::new().sleep(delay).await;
            match self.start(starting).await? {
                StartOutcome::Ready => {}
                // Started manually, or by a plugin that was killed afterwards.
                StartOutcome::Failed(message) if message == ServeError::AlreadyRunning.to_string() => {}
                StartOutcome::Failed(message) => return Err(DaemonError::Failed { message }),
                StartOutcome::Killed => failure = format!("it {}", ProcessExit::KILLED),
            }
        }
        self.try_lease(lock_file).await?.ok_or(DaemonError::Failed { message: failure })
    }

    /// Returns `None` if no daemon is running.
    async fn try_lease(&self, lock_file: Option<&Path>) -> Result<Option<LeaseResponse>, DaemonError> {
        match ControlClient::new(&self.dir)?.lease(lock_file).await {
            Err(ControlError::NotRunning) => Ok(None),
            response => Ok(Some(response?)),
        }
    }

    /// Takes the lock for starting a daemon, held until the file is dropped.
    async fn lock_start(&self) -> Result<File, DaemonError> {
        const LOCK: &str = "start.lock";
        loop {
            let lock = listener::lock_with_timeout(self.dir.lock_file(LOCK)?, self.timeout).await;
            let lock = lock.map_err(|error| DaemonError::Start { reason: error.into() })?;
            let lock = lock.ok_or(DaemonError::TimedOut { limit: self.timeout })?;
            // An exiting proxy may have removed the file meanwhile.
            if self.dir.is_current(LOCK, &lock) {
                return Ok(lock);
            }
        }
    }

    /// Starts the daemon and waits for its report.
    async fn start(&self, starting: &mut Option<SpawnedDaemon>) -> Result<StartOutcome, DaemonError> {
        let env = SystemEnv.vars().into_iter().filter(|(name, _)| self.inherit.allows(name));
        let started = spawn_daemon(&self.program, &self.args, env);
        let process = starting.insert(started.map_err(|reason| DaemonError::Start { reason })?);
        let Some(mut report) = process.take_stdout() else {
            return Err(DaemonError::Failed { message: "its output cannot be read".into() });
        };
        let (give, take) = oneshot::channel();
        let reading = std::thread::Builder::new().name("report".into()).spawn(move || {
            let mut text = String::new();
            // Limit the length of the message.
            let _ = report.by_ref().take(4096).read_to_string(&mut text);
            let _ = give.send(text);
        });
        reading.map_err(|error| DaemonError::Start { reason: error.into() })?;
        let text = take.await.unwrap_or_default();
        let outcome = match text.trim() {
            READY => StartOutcome::Ready,
            "" if exit_status(process).await == Some(ProcessExit::KILLED) => StartOutcome::Killed,
            "" => StartOutcome::Failed("it exited without a message".into()),
            message => StartOutcome::Failed(credlet_api::escape_control_chars(message)),
        };
        // The daemon reported, so it is not killed on a timeout.
        *starting = None;
        Ok(outcome)
    }
}

/// Returns the exit status of a process that closed its streams. The kernel closes them shortly before it reports the
/// exit.
async fn exit_status(starting: &mut SpawnedDaemon) -> Option<ProcessExit> {
    let clock = SystemClock::new();
    let until = clock.monotonic() + Duration::from_secs(2);
    loop {
        match starting.try_wait() {
            None if clock.monotonic() < until => clock.sleep(Duration::from_millis(5)).await,
            ended => return ended,
        }
    }
}

/// Reports the start-up of a daemon to the waiting plugin.
#[derive(Debug)]
#[must_use = "the plugin waits for the report"]
pub struct StartupHandle {
    stdio: DetachableStdio,
}

impl StartupHandle {
    /// Must be called first in the daemon's process, before threads are started or files opened: it closes all
    /// inherited descriptors.
    ///
    /// # Errors
    /// If hardening the process fails.
    pub fn begin() -> std::io::Result<Self> {
        close_inherited_fds()?;
        let startup = Self { stdio: DetachableStdio::prepare()? };
        harden_process()?;
        Ok(startup)
    }

    /// Reports that the daemon listens, and detaches the standard streams.
    ///
    /// # Errors
    /// If the streams cannot be detached. The process must exit then, because the plugin's client would wait for EOF.
    pub fn ready(self) -> std::io::Result<()> {
        self.report(READY)
    }

    /// Reports an error to the plugin and detaches the standard streams.
    ///
    /// # Errors
    /// See [`ready`](Self::ready).
    pub fn failed(self, why: impl std::fmt::Display) -> std::io::Result<()> {
        self.report(&why.to_string())
    }

    fn report(self, message: &str) -> std::io::Result<()> {
        // The plugin may have exited.
        let _ = std::io::stdout().lock().write_all(message.as_bytes());
        let _ = std::io::stdout().lock().flush();
        self.stdio.detach()
    }
}

/// A daemon that is neither running nor could be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The directory is not usable.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The running daemon rejected the request.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The process could not be started.
    #[error("failed to start the proxy: {reason}")]
    Start {
        /// Error of the operating system.
        reason: OsError,
    },
    /// The daemon exited at start-up.
    #[error("the proxy failed to start: {message}")]
    Failed {
        /// Message of the daemon.
        message: String,
    },
    /// The daemon did not listen in time.
    #[error("the start of the proxy timed out after {} seconds", limit.as_secs())]
    TimedOut {
        /// How long the caller waited for the daemon.
        limit: Duration,
    },
}

impl DaemonError {
    /// Hints for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Control(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}
