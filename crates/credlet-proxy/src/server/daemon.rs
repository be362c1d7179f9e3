//! Finding the proxy that serves already, or starting it: what a plugin does that leaves when it has answered.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use credlet_core::{
    Clock as _, Ended, Env as _, Inherit, OsError, Starting, SystemClock, SystemEnv, close_inherited, start_reporting,
};
use tokio::sync::oneshot;

use super::ask::{Answer, Control, ControlError};
use super::listener;
use super::process::{Stdio, close_to_others};
use super::run::ServeError;
use crate::dir::{Dir, DirError};

/// A proxy that may be running, and how to start it if it is not.
///
/// However many plugins look for it at once, one of them starts it and the others wait for that.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// Where it is.
    pub dir: Dir,
    /// The program: this one, as a rule.
    pub program: PathBuf,
    /// What makes the program be the daemon, which has to call [`Daemon::begin`] first.
    pub args: Vec<OsString>,
    /// What it gets of our environment, which stays with it for as long as it lives: all, unless its author knows what
    /// it needs.
    pub inherit: Inherit,
    /// How long it may take to find it, or to start it: 25 s unless a person has to act. One that has not begun to listen
    /// by then is ended. Clients give a plugin 30 s, and if they ended it first, the daemon would go on.
    pub patience: Duration,
}

/// What became of a start.
enum Begun {
    Ready,
    /// By the daemon's own word.
    Not(String),
    /// By somebody else, before it could say a word. A crash is nobody else's doing, and would only come again.
    Killed,
}

/// The pauses before one start and the next.
const PAUSES: [Duration; 4] = [Duration::ZERO, Duration::ZERO, Duration::from_millis(500), Duration::from_secs(1)];

/// What the daemon says when it listens.
const READY: &str = "ready";

impl Daemon {
    /// With the usual patience.
    pub fn new(dir: Dir, program: PathBuf, args: Vec<OsString>) -> Self {
        Self { dir, program, args, inherit: Inherit::ALL, patience: Duration::from_secs(25) }
    }

    /// The answer for a client: one that keeps this file locked, or one that knows nothing of sockets and locks.
    ///
    /// # Errors
    /// When no daemon is there and none can be started.
    pub async fn ask(&self, lock_file: Option<&Path>) -> Result<Answer, DaemonError> {
        let mut starting = None;
        let asked = tokio::time::timeout(self.patience, self.find_or_start(lock_file, &mut starting)).await;
        asked.unwrap_or_else(|_| {
            // It would hang on for ever beside the one that the next plugin starts, and beside all after that.
            starting.into_iter().for_each(Starting::give_up);
            Err(DaemonError::TimedOut { limit: self.patience })
        })
    }

    /// `starting` is the one that has been started and has not said a word yet.
    async fn find_or_start(
        &self,
        lock_file: Option<&Path>,
        starting: &mut Option<Starting>,
    ) -> Result<Answer, DaemonError> {
        // The usual case: it is there.
        if let Some(answer) = self.try_ask(lock_file).await? {
            return Ok(answer);
        }
        let _turn = self.turn().await?;
        let mut trouble = "it ended at once".to_owned();
        // Whoever had the turn before us may have started it. One that ends just now makes room for another.
        for pause in PAUSES {
            if let Some(answer) = self.try_ask(lock_file).await? {
                return Ok(answer);
            }
            SystemClock::new().sleep(pause).await;
            match self.start(starting).await? {
                Begun::Ready => {}
                // Started by hand, perhaps; or by a plugin that was killed when it had done so.
                Begun::Not(message) if message == ServeError::Taken.to_string() => {}
                Begun::Not(message) => return Err(DaemonError::Failed { message }),
                Begun::Killed => trouble = format!("it {}", Ended::KILLED),
            }
        }
        self.try_ask(lock_file).await?.ok_or(DaemonError::Failed { message: trouble })
    }

    /// `None`: nobody is there.
    async fn try_ask(&self, lock_file: Option<&Path>) -> Result<Option<Answer>, DaemonError> {
        match Control::of(&self.dir)?.lease(lock_file).await {
            Err(ControlError::Gone) => Ok(None),
            answer => Ok(Some(answer?)),
        }
    }

    /// Our turn to start it, until what this gives is dropped.
    async fn turn(&self) -> Result<File, DaemonError> {
        const LOCK: &str = "start.lock";
        loop {
            let turn = listener::turn(self.dir.lock_file(LOCK)?, self.patience).await;
            let turn = turn.map_err(|error| DaemonError::Start { reason: error.into() })?;
            let turn = turn.ok_or(DaemonError::TimedOut { limit: self.patience })?;
            // Else a proxy that ended meanwhile has taken it away.
            if self.dir.is_in_place(LOCK, &turn) {
                return Ok(turn);
            }
        }
    }

    /// Starts it and waits for its word.
    async fn start(&self, ours: &mut Option<Starting>) -> Result<Begun, DaemonError> {
        let env = SystemEnv.vars().into_iter().filter(|(name, _)| self.inherit.passes(name));
        let started = start_reporting(&self.program, &self.args, env);
        let starting = ours.insert(started.map_err(|reason| DaemonError::Start { reason })?);
        let Some(mut report) = starting.report() else {
            return Err(DaemonError::Failed { message: "it cannot be heard".into() });
        };
        let (give, take) = oneshot::channel();
        let reading = std::thread::Builder::new().name("report".into()).spawn(move || {
            let mut text = String::new();
            // As much as is worth showing.
            let _ = report.by_ref().take(4096).read_to_string(&mut text);
            let _ = give.send(text);
        });
        reading.map_err(|error| DaemonError::Start { reason: error.into() })?;
        let text = take.await.unwrap_or_default();
        let begun = match text.trim() {
            READY => Begun::Ready,
            "" if end_of(starting).await == Some(Ended::KILLED) => Begun::Killed,
            "" => Begun::Not("it ended without a word".into()),
            message => Begun::Not(credlet_api::visible(message)),
        };
        // It stands on its own feet now, or has fallen.
        *ours = None;
        Ok(begun)
    }

    /// To be called first in the daemon's own process, before it has threads or open files: those that it has were left
    /// open by others, and are closed.
    ///
    /// # Errors
    /// When this process cannot be made safe.
    pub fn begin() -> std::io::Result<Beginning> {
        close_inherited()?;
        let beginning = Beginning { stdio: Stdio::prepare()? };
        close_to_others()?;
        Ok(beginning)
    }
}

/// How one that says no more has ended: its streams are closed a moment before the system tells.
async fn end_of(starting: &mut Starting) -> Option<Ended> {
    let clock = SystemClock::new();
    let until = clock.monotonic() + Duration::from_secs(2);
    loop {
        match starting.ended() {
            None if clock.monotonic() < until => clock.sleep(Duration::from_millis(5)).await,
            ended => return ended,
        }
    }
}

/// A daemon that somebody waits for.
#[derive(Debug)]
#[must_use = "somebody waits for it"]
pub struct Beginning {
    stdio: Stdio,
}

impl Beginning {
    /// It listens. From now on it has no standard streams.
    ///
    /// # Errors
    /// When they cannot be let go of; then it must end, because somebody would wait for it for ever.
    pub fn ready(self) -> std::io::Result<()> {
        self.say(READY)
    }

    /// It cannot begin, and says why to whoever started it.
    ///
    /// # Errors
    /// As with [`ready`](Self::ready).
    pub fn failed(self, why: impl std::fmt::Display) -> std::io::Result<()> {
        self.say(&why.to_string())
    }

    fn say(self, word: &str) -> std::io::Result<()> {
        // If nobody listens any more, that is their business.
        let _ = std::io::stdout().lock().write_all(word.as_bytes());
        let _ = std::io::stdout().lock().flush();
        self.stdio.let_go()
    }
}

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// Whoever owns the directory must act.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// One is there, but does not do as it is asked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// It could not be started.
    #[error("the proxy cannot be started: {reason}")]
    Start {
        /// The system's reason.
        reason: OsError,
    },
    /// It gave up at once.
    #[error("the proxy did not start: {message}")]
    Failed {
        /// What it said.
        message: String,
    },
    /// It took too long.
    #[error("the proxy did not start within {} seconds", limit.as_secs())]
    TimedOut {
        /// How long it was given.
        limit: Duration,
    },
}

impl DaemonError {
    /// What the person reading this can do, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Control(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}
