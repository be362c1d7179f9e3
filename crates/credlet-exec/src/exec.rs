//! Runs an exec plugin once, from its configuration to a validated credential.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credlet_api::escape_control_chars;
use credlet_api::exec::{
    ApiVersion, Cluster, ExecConfig, ExecCredentialSpec, ExecCredentialStatus, InteractiveMode, proxy_document_end,
    status_message,
};

use crate::credential::{ClientCertificate, Credential};
use crate::environment::{self, EnvInheritance};
use crate::error::{Error, InvalidOutput, NotInteractive};
use crate::exec_proxy::{LockFile, PluginProxy};
use crate::observer::{CallStatus, NoopObserver, PluginEvent, PluginObserver};
use crate::rate_limit::RateLimiter;
use crate::refresh::{FetchReason, FetchedValue, Source};
use crate::sanitize::{last_line, sanitize_output};
use crate::{Clock, Env, PluginPolicy, ProcessRunner, SystemClock, SystemEnv, SystemRunner, find_program, keypair};
use credlet_platform::{
    CommandSpec, CompletedProcess, ProcessExit, ProcessOutput, RunError, RunLimits, RunOutcome, RunningProcess,
    StdinSource,
};

/// Injected dependencies: clock, environment, process runner and observer.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Wall clock and monotonic clock.
    pub clock: Arc<dyn Clock>,
    /// Environment variables, home directory and terminal.
    pub env: Arc<dyn Env>,
    /// Starts plugins and enforces their limits.
    pub runner: Arc<dyn ProcessRunner>,
    /// Receives plugin events, for metrics.
    pub observer: Arc<dyn PluginObserver>,
}

impl Platform {
    /// Returns the operating system's clock, environment and processes, without an observer.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            env: Arc::new(SystemEnv),
            runner: Arc::new(SystemRunner::new()),
            observer: Arc::new(NoopObserver),
        }
    }
}

/// A configured exec plugin: the [`Source`] of a [`RefreshingCache`](crate::RefreshingCache).
pub struct ExecPlugin {
    config: ExecConfig,
    cluster: Option<Cluster>,
    options: ExecOptions,
    platform: Platform,
    install_hint_limit: RateLimiter,
    stdin_unavailable: Mutex<Option<String>>,
    /// Whether the last output contained a proxy.
    is_proxy: AtomicBool,
}

/// Client-side settings of plugin runs, in addition to the kubeconfig.
#[derive(Clone, Debug)]
pub struct ExecOptions {
    /// Plugins that may run. Default: all.
    pub policy: PluginPolicy,
    /// Variables of this process that plugins inherit. Default: all.
    pub inherit: EnvInheritance,
    /// Limits of non-interactive runs.
    pub limits: RunLimits,
    /// Limits of interactive runs.
    pub interactive_limits: RunLimits,
    /// Set if this process uses standard input itself, with the reason. Plugins then run without it.
    pub stdin_unavailable: Option<String>,
    /// Set if this process supports exec proxies (KEP-2718). Without it, plugins are not offered to return one.
    pub lock_file: Option<Arc<dyn LockFile>>,
}

/// Delays before a proxy plugin that was killed is retried.
const KILLED_RETRY_DELAYS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(2)];

/// Timeout of a non-interactive run after one that returned a proxy.
const PROXY_START_TIMEOUT: Duration = Duration::from_secs(30);

impl Default for ExecOptions {
    fn default() -> Self {
        Self {
            policy: PluginPolicy::ALLOW_ALL,
            inherit: EnvInheritance::ALL,
            limits: RunLimits::NON_INTERACTIVE,
            interactive_limits: RunLimits::INTERACTIVE,
            stdin_unavailable: None,
            lock_file: None,
        }
    }
}

impl ExecPlugin {
    /// Validates the configuration. Does not run the plugin. `cluster` is passed to the plugin only if
    /// `provideClusterInfo` is set.
    ///
    /// # Errors
    /// All problems of the configuration.
    pub fn new(
        config: ExecConfig,
        cluster: Option<Cluster>,
        options: ExecOptions,
        platform: Platform,
    ) -> Result<Self, Error> {
        config.validate().map_err(Error::InvalidConfig)?;
        let cluster = cluster.filter(|_| config.provide_cluster_info);
        let install_hint_limit = RateLimiter::new(10, Duration::from_secs(3600));
        let stdin_unavailable = Mutex::new(options.stdin_unavailable.clone());
        let is_proxy = AtomicBool::new(false);
        Ok(Self { config, cluster, options, platform, install_hint_limit, stdin_unavailable, is_proxy })
    }

    /// Reserves standard input for this process: later runs are not interactive. `reason` appears in errors.
    pub fn reserve_stdin(&self, reason: impl Into<String>) {
        *self.stdin_unavailable.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
    }

    /// Returns the injected dependencies.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns the configured command.
    pub fn command(&self) -> &str {
        &self.config.command
    }

    async fn run(&self, reason: &FetchReason) -> Result<FetchedValue<Credential>, Error> {
        let interactive = self.interactive()?;
        let spec = ExecCredentialSpec {
            cluster: self.cluster.clone(),
            interactive,
            response: reason.response().cloned(),
            lock_file_path: self.lock_file_path(),
        };
        let env = &*self.platform.env;
        let found = find_program(&self.config.command, env);
        let allowed = self.options.policy.check(&self.config.command, &found, env);
        self.platform.observer.observe(&PluginEvent::PolicyChecked { allowed: allowed.is_ok() });
        allowed.map_err(Error::Denied)?;

        let start = self.platform.clock.monotonic();
        let outcome = match found {
            Ok(path) => self.run_process(path, &spec).await.map_err(|reason| self.run_error(reason)),
            Err(reason) => Err(self.not_installed(reason)),
        };
        let (status, code) = call_status(&outcome);
        let took = self.platform.clock.monotonic().saturating_sub(start);
        self.platform.observer.observe(&PluginEvent::Called { status, code, took });
        let fetched = outcome.and_then(|outcome| match outcome {
            RunOutcome::Exited(completed) => self.decode_completed(&completed, &spec),
            RunOutcome::Running { output: ProcessOutput { stdout, stderr }, process } => {
                self.decode(&stdout, &stderr, &spec, Some(process))
            }
        });
        if let Ok(fetched) = &fetched {
            self.is_proxy.store(fetched.value.proxy.is_some(), Ordering::Relaxed);
        }
        if self.is_proxy.load(Ordering::Relaxed) {
            self.platform.observer.observe(&PluginEvent::CalledForProxy { status, code });
        }
        fetched
    }

    /// Whether to retry at once. SIGKILL comes from the OOM killer or an operator, and a running proxy that is killed is
    /// restarted as well. A plugin that crashes would crash again.
    fn is_retryable(&self, error: &Error) -> bool {
        self.options.lock_file.is_some() && matches!(error, Error::Failed { exit: ProcessExit::KILLED, .. })
    }

    async fn run_process(&self, path: PathBuf, spec: &ExecCredentialSpec) -> Result<RunOutcome, RunError> {
        let exec_info = spec.encode(self.config.api_version);
        let mut command = CommandSpec {
            path,
            args: self.config.args.clone(),
            env: environment::plugin_env(&*self.platform.env, &self.options.inherit, &self.config, exec_info),
            stdin: if spec.interactive { StdinSource::Terminal } else { StdinSource::Null },
            limits: if spec.interactive { self.options.interactive_limits } else { self.options.limits },
        };
        tracing::debug!(command = self.config.command, interactive = spec.interactive, "running credential plugin");
        if spec.lock_file_path.is_none() {
            return self.platform.runner.run(command).await.map(RunOutcome::Exited);
        }
        if self.is_proxy.load(Ordering::Relaxed) && !spec.interactive {
            command.limits.timeout = command.limits.timeout.min(PROXY_START_TIMEOUT);
        }
        self.platform.runner.run_until(command, proxy_document_end).await
    }

    /// Returns `None` if there is no lock file: the plugin can then still return a token.
    fn lock_file_path(&self) -> Option<String> {
        let lock_file = self.options.lock_file.as_ref().filter(|_| self.config.api_version != ApiVersion::V1alpha1)?;
        match lock_file.path() {
            Ok(path) => path.into_os_string().into_string().ok(),
            Err(error) => {
                // Not a warning: most plugins return no proxy, and some clients have no writable directory.
                tracing::debug!(%error, "exec proxies are unavailable");
                None
            }
        }
    }

    fn interactive(&self) -> Result<bool, Error> {
        let terminal = self.platform.env.stdin_is_terminal();
        let unavailable = self.stdin_unavailable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let not_interactive = |reason| Error::NotInteractive { command: self.config.command.clone(), reason };
        match self.config.interactive_mode {
            InteractiveMode::Never => Ok(false),
            InteractiveMode::IfAvailable => Ok(terminal && unavailable.is_none()),
            InteractiveMode::Always if !terminal => Err(not_interactive(NotInteractive::NotATerminal)),
            InteractiveMode::Always => match unavailable {
                Some(reason) => Err(not_interactive(NotInteractive::StdinUnavailable(reason))),
                None => Ok(true),
            },
        }
    }

    fn decode_completed(
        &self,
        completed: &CompletedProcess,
        spec: &ExecCredentialSpec,
    ) -> Result<FetchedValue<Credential>, Error> {
        if !completed.exit.is_success() {
            let command = self.config.command.clone();
            let stderr = self.sanitize(&completed.stderr, &completed.stdout);
            let message = status_message(&completed.stdout)
                .map(|message| self.sanitize(message.as_bytes(), &[]))
                .unwrap_or_else(|| last_line(&stderr));
            return Err(Error::Failed { command, exit: completed.exit, message, stderr });
        }
        self.decode(&completed.stdout, &completed.stderr, spec, None)
    }

    /// Decodes and validates the output. `process` is set if the plugin keeps running.
    fn decode(
        &self,
        stdout: &[u8],
        stderr: &[u8],
        spec: &ExecCredentialSpec,
        process: Option<RunningProcess>,
    ) -> Result<FetchedValue<Credential>, Error> {
        let invalid = |reason| Error::InvalidOutput {
            command: self.config.command.clone(),
            reason,
            stderr: self.sanitize(stderr, stdout),
        };
        let status = ExecCredentialStatus::decode(stdout, self.config.api_version, spec)
            .map_err(|error| invalid(InvalidOutput::Credential(error)))?;
        let certificate = if status.client_certificate_data.is_empty() {
            None
        } else {
            let validity = keypair::check(&status.client_certificate_data, &status.client_key_data)
                .map_err(|error| invalid(InvalidOutput::KeyPair(error)))?;
            let (chain_pem, key_pem) = (status.client_certificate_data, status.client_key_data);
            Some(ClientCertificate { chain_pem, key_pem, validity })
        };
        let token = Some(status.token).filter(|token| !token.is_empty());
        let proxy = status.proxy_config.map(|config| PluginProxy { config, process });
        Ok(FetchedValue { value: Credential { token, certificate, proxy }, expires: status.expiration_timestamp })
    }

    fn not_installed(&self, reason: crate::LookupError) -> Error {
        let hint = &self.config.install_hint;
        let is_shown =
            reason.is_missing() && !hint.is_empty() && self.install_hint_limit.allow(self.platform.clock.monotonic());
        Error::NotInstalled { reason, install_hint: is_shown.then(|| escape_control_chars(hint)) }
    }

    fn run_error(&self, reason: RunError) -> Error {
        let command = self.config.command.clone();
        match reason {
            RunError::TimedOut { .. } | RunError::OutputTooLarge { .. } => {
                let stderr = self.sanitize(reason.stderr(), &[]);
                Error::LimitExceeded { command, reason, stderr }
            }
            _ => {
                let authorities = self.cluster.as_ref().map(|cluster| cluster.certificate_authority_data.len());
                // The data is passed in base64.
                let certificate_authority_bytes = authorities.unwrap_or_default().div_ceil(3) * 4;
                Error::NotStarted { command, reason, certificate_authority_bytes }
            }
        }
    }

    /// Redacts the values of the kubeconfig's variables and parts of `stdout`, and escapes control characters.
    fn sanitize(&self, text: &[u8], stdout: &[u8]) -> String {
        sanitize_output(text, stdout, self.config.env.iter().map(|variable| &variable.value))
    }
}

impl Source for ExecPlugin {
    type Value = Credential;
    type Error = Error;

    async fn fetch(&self, reason: &FetchReason) -> Result<FetchedValue<Credential>, Error> {
        for delay in KILLED_RETRY_DELAYS {
            match self.run(reason).await {
                Err(error) if self.is_retryable(&error) => {
                    tracing::debug!(%error, ?delay, "retrying credential plugin");
                    self.platform.clock.sleep(delay).await;
                }
                result => return result,
            }
        }
        self.run(reason).await
    }

    /// An interactive plugin must not prompt the user in the background.
    fn may_prefetch(&self) -> bool {
        !self.interactive().unwrap_or(true)
    }

    fn on_backoff(&self) {
        self.platform.observer.observe(&PluginEvent::BackedOff);
    }

    fn cancelled(&self) -> Error {
        Error::Cancelled { command: self.config.command.clone() }
    }
}

impl fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecPlugin")
            .field("config", &self.config)
            .field("cluster", &self.cluster)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Returns the labels of client-go's `rest_client_exec_plugin_call_total`. Outcomes that client-go does not distinguish
/// are mapped to the nearest one.
fn call_status(outcome: &Result<RunOutcome, Error>) -> (CallStatus, i32) {
    match outcome {
        Ok(RunOutcome::Running { .. }) => (CallStatus::NoError, 0),
        Ok(RunOutcome::Exited(completed)) if completed.exit.is_success() => (CallStatus::NoError, 0),
        Ok(RunOutcome::Exited(completed)) => (CallStatus::PluginExecutionError, completed.exit.code()),
        Err(Error::LimitExceeded { .. }) => (CallStatus::PluginExecutionError, -1),
        Err(Error::NotInstalled { .. } | Error::NotStarted { reason: RunError::Spawn { .. }, .. }) => {
            (CallStatus::PluginNotFoundError, 1)
        }
        Err(_) => (CallStatus::ClientInternalError, 1),
    }
}
