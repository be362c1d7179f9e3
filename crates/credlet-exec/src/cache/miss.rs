//! A cache miss: one process runs the plugin, the others wait for its result.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::{
    CommandSpec, CompletedProcess, Platform, ProcessExit, RunError, RunLimits, RunOutcome, RunningProcess, StdinSource,
    sanitize_output,
};
use credlet_api::exec::proxy_document_end;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::failure::{self, PluginFailure};
use super::lifetime::EntryLifetime;
use super::{CacheEntry, CacheInvocation, CacheMode, CacheStats, CacheWarning, compare, output, rejection};
use crate::store::{SealError, Store, StoreError, StoreLock};

/// Ends a plugin that hangs. kubectl has no time limit, and a login in a browser takes minutes.
const LIMITS: RunLimits =
    RunLimits { timeout: Duration::from_secs(600), max_stdout: RunLimits::INTERACTIVE.max_stdout };

/// Longer than the time limit of the plugin that the lock holder runs.
const LOCK_TIMEOUT: Duration = Duration::from_secs(610);

/// Files that were not modified for this long are removed, or for twice `--max-age` if that is longer.
const MAX_IDLE: Duration = Duration::from_secs(2 * 24 * 3600);

/// The output and exit status to pass to the client.
pub struct CacheResponse {
    /// The plugin's output, in the requested version.
    pub stdout: Zeroizing<Vec<u8>>,
    /// Exit status of the plugin.
    pub exit: ProcessExit,
    /// The plugin, if it keeps running as an exec proxy (KEP-2718). The process that prints the output must wait for it.
    pub process: Option<RunningProcess>,
}

impl std::fmt::Debug for CacheResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheResponse").field("exit", &self.exit).finish_non_exhaustive()
    }
}

impl CacheResponse {
    fn success(stdout: Zeroizing<Vec<u8>>) -> Self {
        Self { stdout, exit: ProcessExit::Exited(0), process: None }
    }

    fn failure(code: u8) -> Self {
        Self { stdout: Zeroizing::default(), exit: ProcessExit::Exited(code.into()), process: None }
    }
}

impl CacheInvocation {
    /// Runs the plugin, or waits for the process that runs it. If the cache cannot be used, the plugin is run without it.
    /// Messages for the user are passed to `warn`.
    pub async fn miss(&mut self, platform: &Platform, warn: &mut (dyn FnMut(CacheWarning) + Send)) -> CacheResponse {
        if self.is_uncached() {
            return self.run_uncached(platform, warn).await;
        }
        let began = truncate_to_millis(platform.clock.now());
        let Some(dir) = self.dir.clone() else {
            warn(CacheWarning::NoDirectory);
            return self.run_uncached(platform, warn).await;
        };
        if let Err(Some(error)) = &self.state {
            warn(CacheWarning::CacheUnusable { path: error.path.display().to_string(), reason: error.reason });
            return self.run_uncached(platform, warn).await;
        }
        let opened = Store::open(&dir).and_then(|store| {
            let lock = self.acquire_lock(&store, warn)?;
            Ok((store, lock))
        });
        let (store, _lock) = match opened {
            Ok((_, None)) => return CacheResponse::success(Zeroizing::default()),
            Ok((store, Some(lock))) => (store, lock),
            Err(reason) => {
                warn(CacheWarning::CacheUnusable { path: dir.display().to_string(), reason });
                return self.run_uncached(platform, warn).await;
            }
        };
        match self.result_of_other_process(&store, began, platform, warn) {
            Some(response) => response,
            None => self.run_and_store(&store, platform, warn).await,
        }
    }

    /// Returns the lock of the entry. `None`: this is a background refresh, and another process holds the lock.
    fn acquire_lock(
        &self,
        store: &Store,
        warn: &mut (dyn FnMut(CacheWarning) + Send),
    ) -> Result<Option<StoreLock>, StoreError> {
        if self.mode == CacheMode::BackgroundRefresh {
            return store.try_lock(self.key.as_str());
        }
        let command = self.options.command.clone();
        let lock = store
            .lock(self.key.as_str(), LOCK_TIMEOUT, |holder| warn(CacheWarning::WaitingForLock { command, holder }));
        lock.map(Some)
    }

    /// The response or failure that another process has stored while this one waited for the lock.
    fn result_of_other_process(
        &mut self,
        store: &Store,
        began: Timestamp,
        platform: &Platform,
        warn: &mut (dyn FnMut(CacheWarning) + Send),
    ) -> Option<CacheResponse> {
        let now = platform.clock.now();
        if let Some(entry) = self.load_entry(store).filter(|entry| entry.is_fresh_for(&self.options, now)) {
            if self.mode == CacheMode::BackgroundRefresh {
                let renewed = now < entry.lifetime.refresh_at;
                return renewed.then(|| CacheResponse::success(Zeroizing::default()));
            }
            let another = self.rejected.as_ref().is_none_or(|(created, _)| *created != entry.lifetime.created);
            let new = !self.wants_refresh() && another || entry.lifetime.created >= began;
            if let Some(response) = new.then(|| self.serve_entry(store, entry, now)).flatten() {
                return Some(CacheResponse::success(response));
            }
        }
        let failure = PluginFailure::load(store, &self.key, self.existing_protection().as_ref())?;
        let command = self.options.command.clone();
        if failure.at >= began {
            warn(CacheWarning::SharedFailure { command, message: failure.message });
            return Some(CacheResponse::failure(failure.code));
        }
        let attended = platform.env.stdin_is_terminal() || self.options.force_refresh;
        let remaining = failure.cooldown(now).filter(|_| !attended)?;
        warn(CacheWarning::LoginCooldown { command, message: failure.message, remaining });
        Some(CacheResponse::failure(failure.code))
    }

    /// Runs the plugin and stores its output or failure.
    async fn run_and_store(
        &mut self,
        store: &Store,
        platform: &Platform,
        warn: &mut (dyn FnMut(CacheWarning) + Send),
    ) -> CacheResponse {
        let started = platform.clock.monotonic();
        let finished = match self.run(platform).await {
            ControlFlow::Break(response) => return response,
            ControlFlow::Continue(finished) => finished,
        };
        let took = platform.clock.monotonic().saturating_sub(started);
        let now = platform.clock.now();
        match finished {
            Ok(finished) if finished.exit.is_success() => self.store_output(store, finished, took, now, warn),
            finished => {
                let code = finished.as_ref().map_or(1, |finished| exit_code(finished.exit));
                let stderr = match &finished {
                    Ok(finished) => sanitize_output(&finished.stderr, &finished.stdout, []),
                    Err(error) => format!("{}{error}", sanitize_output(error.stderr(), &[], [])),
                };
                if self.mode != CacheMode::BackgroundRefresh {
                    let protection = self.protection(store).ok();
                    let before = PluginFailure::load(store, &self.key, protection.as_ref());
                    let before = before.map_or(0, |failure| failure.count);
                    let login = failure::was_login_attempt(&self.options, took);
                    let count = before.saturating_add(1);
                    let failure = PluginFailure { at: now, count, code, login, message: stderr };
                    // If this fails, each caller runs the plugin, as without a cache.
                    let _ = failure.save(store, &self.key, protection.as_ref());
                }
                self.pass_result(finished, warn)
            }
        }
    }

    fn store_output(
        &self,
        store: &Store,
        finished: CompletedProcess,
        took: Duration,
        now: Timestamp,
        warn: &mut (dyn FnMut(CacheWarning) + Send),
    ) -> CacheResponse {
        let read = self.request.as_ref().and_then(|request| output::decode(&finished.stdout, request));
        let Some(read) = read else { return CacheResponse::success(finished.stdout) };
        // If this fails, the next success clears it.
        let _ = PluginFailure::clear(store, &self.key);
        let lifetime = EntryLifetime::new(now, read.expires_at, &self.options).filter(|_| read.cacheable);
        if let Some(lifetime) = lifetime {
            let cluster = self.request.as_ref().and_then(|request| request.spec.cluster.as_ref());
            let entry = CacheEntry {
                lifetime,
                expires_at: read.expires_at,
                rejected: self.rejected.as_ref().map(|(_, digest)| digest.clone()),
                digest: read.digest,
                generation: self.state.as_ref().map(|(_, secret)| secret.generation()).unwrap_or_default(),
                command: self.options.command.clone(),
                server: cluster.map(|cluster| cluster.server.clone()).unwrap_or_default(),
                body: read.text.clone(),
            };
            match self.write_entry(store, &entry) {
                Ok(()) => {
                    let ahead = self.mode == CacheMode::BackgroundRefresh;
                    // Statistics are not worth an error.
                    let _ = CacheStats::record_run(store, &self.key, took, ahead);
                    if !ahead {
                        // This call is the first for the new entry. If it cannot be recorded, neither can later ones, and
                        // the entry is not served.
                        let _ = rejection::record_call(
                            store,
                            self.key.as_str(),
                            self.caller,
                            self.arrived_at,
                            lifetime.created,
                            now,
                        );
                    }
                }
                Err(EntryStoreError::Store(reason)) => {
                    warn(CacheWarning::CacheUnusable { path: store.path().display().to_string(), reason });
                }
                Err(EntryStoreError::Seal(reason)) if store.is_first(Store::NO_KEYRING) => {
                    warn(CacheWarning::NotEncrypted(reason))
                }
                Err(EntryStoreError::Seal(_)) => {}
            }
            let oldest = now.checked_sub(MAX_IDLE.max(self.options.max_age * 2)).unwrap_or(Timestamp::MIN);
            // If this fails, another call does it.
            let _ = store.sweep(oldest);
        }
        CacheResponse::success(read.text)
    }

    /// Writes the entry and the fingerprints of its key parts, with `--encrypt` encrypted.
    fn write_entry(&self, store: &Store, entry: &CacheEntry) -> Result<(), EntryStoreError> {
        let protection = self.protection(store).map_err(EntryStoreError::Seal)?;
        let key = self.key.as_str();
        let bytes = protection.encode(key, entry.encode(&self.key)).map_err(EntryStoreError::Seal)?;
        if let Ok((state, _)) = &self.state {
            // Before the entry, because `cache rm` removes entries in recorded directories only.
            state.record_directory(store.path()).map_err(EntryStoreError::Store)?;
        }
        store.write(key, &bytes).map_err(EntryStoreError::Store)?;
        let name = compare::file_name(&self.key);
        let inputs = self.encode_key_parts().and_then(|inputs| protection.encode(&name, inputs).ok());
        if let Some(inputs) = inputs {
            // If this fails, `cache explain` cannot compare calls with this entry.
            let _ = store.write(&name, &inputs);
        }
        Ok(())
    }

    /// Runs the plugin without the cache and converts its output to the requested version.
    async fn run_uncached(&self, platform: &Platform, warn: &mut (dyn FnMut(CacheWarning) + Send)) -> CacheResponse {
        let finished = match self.run(platform).await {
            ControlFlow::Break(response) => return response,
            ControlFlow::Continue(finished) => finished,
        };
        let request = self.request.as_ref().filter(|_| self.mode != CacheMode::Off);
        match (&finished, request) {
            (Ok(finished), Some(request)) if finished.exit.is_success() => {
                let read = output::decode(&finished.stdout, request);
                CacheResponse::success(read.map_or_else(|| finished.stdout.clone(), |read| read.text))
            }
            _ => self.pass_result(finished, warn),
        }
    }

    fn pass_result(
        &self,
        finished: Result<CompletedProcess, RunError>,
        warn: &mut (dyn FnMut(CacheWarning) + Send),
    ) -> CacheResponse {
        match finished {
            Ok(finished) => CacheResponse { stdout: finished.stdout, exit: finished.exit, process: None },
            Err(reason) => {
                warn(CacheWarning::RunFailed { command: self.options.command.clone(), reason });
                CacheResponse::failure(1)
            }
        }
    }

    /// Runs the plugin until it exits. `Break`: it keeps running as an exec proxy, whose output is not cached, because only
    /// the plugin knows which clients may share the proxy.
    async fn run(&self, platform: &Platform) -> ControlFlow<CacheResponse, Result<CompletedProcess, RunError>> {
        let interactive = match &self.request {
            Some(request) => request.spec.interactive,
            None => platform.env.stdin_is_terminal(),
        };
        let ours = OsString::from(CacheMode::BACKGROUND_REFRESH.0);
        let env = platform.env.vars().into_iter().filter(|(name, _)| self.mode == CacheMode::Off || *name != ours);
        let program = CommandSpec {
            path: self.program.clone(),
            args: self.options.args.clone(),
            env: env.collect(),
            stdin: if interactive && self.mode != CacheMode::BackgroundRefresh {
                StdinSource::Terminal
            } else {
                StdinSource::Null
            },
            limits: LIMITS,
        };
        let knows_proxies = self.request.as_ref().is_some_and(|request| request.spec.lock_file_path.is_some());
        if !knows_proxies || self.mode == CacheMode::BackgroundRefresh {
            return ControlFlow::Continue(platform.runner.run(program).await);
        }
        match platform.runner.run_until(program, proxy_document_end).await {
            Ok(RunOutcome::Running { output, process }) => {
                ControlFlow::Break(CacheResponse { process: Some(process), ..CacheResponse::success(output.stdout) })
            }
            Ok(RunOutcome::Exited(finished)) => ControlFlow::Continue(Ok(finished)),
            Err(error) => ControlFlow::Continue(Err(error)),
        }
    }
}

/// Why an entry was not written.
enum EntryStoreError {
    Store(StoreError),
    Seal(SealError),
}

/// Entries store times in milliseconds.
fn truncate_to_millis(time: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
}

fn exit_code(exit: ProcessExit) -> u8 {
    match exit {
        ProcessExit::Exited(code) => u8::try_from(code).unwrap_or(1),
        ProcessExit::Killed(signal) => u8::try_from(128 + signal).unwrap_or(1),
    }
}
