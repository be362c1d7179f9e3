//! The client's side: a flight over the plugin, and callers.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::{ApiVersion, ExecConfig, InteractiveMode};
use credlet_core::{
    Credential, Entry, Error, ExecOptions, ExecPlugin, Flight, Limits, Patience, StderrSink, SystemRunner, World,
};

use super::plugin::{Behaviour, STATE_DIR, runs};

type Outcome = Result<Arc<Entry<Credential>>, Arc<Error>>;

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error("no directory for its state: {0}")]
    Directory(#[from] io::Error),
    #[error("{0}")]
    Plugin(#[from] Error),
}

/// A plugin of its own, with nothing fetched yet.
pub(super) struct Stage {
    dir: tempfile::TempDir,
    flight: Flight<ExecPlugin>,
}

impl Stage {
    pub(super) fn new() -> Result<Self, SetupError> {
        let dir = tempfile::tempdir()?;
        let this_binary: PathBuf = std::env::current_exe()?;
        let config = ExecConfig::new(this_binary.to_string_lossy(), ApiVersion::V1)
            .args(["demo-plugin"])
            .env(STATE_DIR, dir.path().to_string_lossy().into_owned())
            .interactive_mode(InteractiveMode::Never);
        let limits = Limits { time: Duration::from_secs(1), ..Limits::ALONE };
        // What the plugin says is shown in the table instead.
        let runner = Arc::new(SystemRunner::with_stderr(StderrSink::Discard));
        let world = World { runner, ..World::system() };
        let clock = Arc::clone(&world.clock);
        let plugin = ExecPlugin::new(config, None, ExecOptions { limits, ..ExecOptions::default() }, world)?;
        Ok(Self { dir, flight: Flight::new(plugin, clock, Patience::default()) })
    }

    pub(super) fn flight(&self) -> &Flight<ExecPlugin> {
        &self.flight
    }

    pub(super) fn runs(&self) -> usize {
        runs(self.dir.path())
    }

    pub(super) fn behave(&self, behaviour: Behaviour) -> io::Result<()> {
        behaviour.write(self.dir.path())
    }

    /// What an error says, with this binary by its name instead of its path.
    pub(super) fn short(&self, error: &Error) -> String {
        error.to_string().replace(self.flight.source().command(), "credlet")
    }

    /// So many callers at once.
    pub(super) async fn ask(&self, callers: usize) -> Vec<Outcome> {
        self.all(callers, |flight| async move { flight.get().await }).await
    }

    /// One caller after another for a while: how many there were, and how many found no credential ready.
    pub(super) async fn ask_for(&self, duration: Duration) -> (usize, usize) {
        let end = tokio::time::Instant::now() + duration;
        let (mut asked, mut waited) = (0, 0);
        while tokio::time::Instant::now() < end {
            // Polled once: a credential that is there, fresh or due, is given without waiting.
            match tokio::time::timeout(Duration::ZERO, self.flight.get()).await {
                Ok(Ok(_)) => asked += 1,
                Ok(Err(_)) | Err(_) => waited += 1,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        (asked, waited)
    }

    pub(super) async fn all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        callers: usize,
        call: impl Fn(Flight<ExecPlugin>) -> F,
    ) -> Vec<T> {
        let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(call(self.flight.clone()))).collect();
        let mut results = Vec::new();
        for task in tasks {
            results.extend(task.await);
        }
        results
    }
}
