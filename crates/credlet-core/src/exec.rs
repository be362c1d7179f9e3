//! One run of an exec plugin, from its configuration to a checked credential.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credlet_api::exec::{
    ApiVersion, Cluster, ExecConfig, ExecCredentialSpec, ExecCredentialStatus, InteractiveMode, failure_message,
    proxy_answer,
};
use credlet_api::visible;

use crate::credential::{ClientCertificate, Credential};
use crate::environment::{self, Inherit};
use crate::error::{Error, Nonsense, Obstacle};
use crate::exec_proxy::{LockFile, Proxy};
use crate::flight::{Fetched, Source, Why};
use crate::foreign::{harmless, last_line};
use crate::hint::Seldom;
use crate::observer::{CallStatus, Event, NoObserver, Observer};
use crate::runner::{Answer, Ended, Finished, Limits, Process, Program, RunError, Started, Stdin};
use crate::{Clock, Env, PluginPolicy, Runner, SystemClock, SystemEnv, SystemRunner, keypair, look_up};

/// The outside world, as this crate meets it.
#[derive(Clone, Debug)]
pub struct World {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The surroundings.
    pub env: Arc<dyn Env>,
    /// The starter of programs.
    pub runner: Arc<dyn Runner>,
    /// The one who counts.
    pub observer: Arc<dyn Observer>,
}

impl World {
    /// The real one.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            env: Arc::new(SystemEnv),
            runner: Arc::new(SystemRunner::new()),
            observer: Arc::new(NoObserver),
        }
    }
}

/// An exec plugin, ready to be run.
pub struct ExecPlugin {
    config: ExecConfig,
    cluster: Option<Cluster>,
    options: ExecOptions,
    world: World,
    install_hint: Seldom,
    stdin_unavailable: Mutex<Option<String>>,
    /// Whether its last answer was a proxy.
    is_proxy: AtomicBool,
}

/// How plugins are run, apart from what a kubeconfig says.
#[derive(Clone, Debug)]
pub struct ExecOptions {
    /// Which programs may be run.
    pub policy: PluginPolicy,
    /// Which of our variables they see.
    pub inherit: Inherit,
    /// What they must not exceed on their own.
    pub limits: Limits,
    /// What they must not exceed when they talk to a person.
    pub limits_with_person: Limits,
    /// Set when this program needs standard input for itself, with the reason: then no plugin may have it.
    pub stdin_unavailable: Option<String>,
    /// Set when this program can send requests through a plugin's proxy: the file that it keeps locked meanwhile.
    /// Without it plugins are not told that they may answer with one.
    pub lock_file: Option<Arc<dyn LockFile>>,
}

/// The pauses before a plugin that might have become a proxy is run again because it was killed; then that is its error.
const AFTER_KILLS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(2)];

/// How long a plugin that is known to start a proxy may take for it.
const PROXY_START: Duration = Duration::from_secs(30);

impl Default for ExecOptions {
    fn default() -> Self {
        Self {
            policy: PluginPolicy::ALLOW_ALL,
            inherit: Inherit::ALL,
            limits: Limits::ALONE,
            limits_with_person: Limits::WITH_PERSON,
            stdin_unavailable: None,
            lock_file: None,
        }
    }
}

impl ExecPlugin {
    /// A plugin for `cluster`. Nothing is run yet. The cluster is passed on only if the configuration says so.
    ///
    /// # Errors
    /// All mistakes in the configuration at once.
    pub fn new(
        config: ExecConfig,
        cluster: Option<Cluster>,
        options: ExecOptions,
        world: World,
    ) -> Result<Self, Error> {
        config.check().map_err(Error::Misconfigured)?;
        let cluster = cluster.filter(|_| config.provide_cluster_info);
        let install_hint = Seldom::new(10, Duration::from_secs(3600));
        let stdin_unavailable = Mutex::new(options.stdin_unavailable.clone());
        let is_proxy = AtomicBool::new(false);
        Ok(Self { config, cluster, options, world, install_hint, stdin_unavailable, is_proxy })
    }

    /// From now on this program needs standard input for itself, for this reason: no run may have it any more.
    pub fn reserve_stdin(&self, reason: impl Into<String>) {
        *self.stdin_unavailable.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
    }

    /// The clock and the rest of what it was given.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The program's name as configured.
    pub fn command(&self) -> &str {
        &self.config.command
    }

    async fn run(&self, why: &Why) -> Result<Fetched<Credential>, Error> {
        let interactive = self.interactive()?;
        let spec = ExecCredentialSpec {
            cluster: self.cluster.clone(),
            interactive,
            response: why.response().cloned(),
            lock_file_path: self.lock_file_path(),
        };
        let env = &*self.world.env;
        let found = look_up(&self.config.command, env);
        let allowed = self.options.policy.check(&self.config.command, &found, env);
        self.world.observer.observe(&Event::PolicyChecked { allowed: allowed.is_ok() });
        allowed.map_err(Error::Refused)?;

        let began = self.world.clock.monotonic();
        let started = match found {
            Ok(path) => self.start(path, &spec).await.map_err(|reason| self.not_finished(reason)),
            Err(reason) => Err(self.not_installed(reason)),
        };
        let (status, code) = call_status(&started);
        let took = self.world.clock.monotonic().saturating_sub(began);
        self.world.observer.observe(&Event::Called { status, code, took });
        let fetched = started.and_then(|started| match started {
            Started::Ended(finished) => self.read_finished(&finished, &spec),
            Started::Alive { answer: Answer { stdout, stderr }, process } => {
                self.read(&stdout, &stderr, &spec, Some(process))
            }
        });
        if let Ok(fetched) = &fetched {
            self.is_proxy.store(fetched.value.proxy.is_some(), Ordering::Relaxed);
        }
        if self.is_proxy.load(Ordering::Relaxed) {
            self.world.observer.observe(&Event::CalledForProxy { status, code });
        }
        fetched
    }

    /// A proxy that is killed is started again, so one that is killed while it starts is as well. No plugin does that to
    /// itself: it is the system, short of memory, or an operator; a crash would only come again.
    fn deserves_another_run(&self, error: &Error) -> bool {
        self.options.lock_file.is_some() && matches!(error, Error::Failed { ended: Ended::KILLED, .. })
    }

    async fn start(&self, path: PathBuf, spec: &ExecCredentialSpec) -> Result<Started, RunError> {
        let exec_info = spec.encode(self.config.api_version);
        let mut program = Program {
            path,
            args: self.config.args.clone(),
            env: environment::assemble(&*self.world.env, &self.options.inherit, &self.config, exec_info),
            stdin: if spec.interactive { Stdin::Terminal } else { Stdin::Null },
            limits: if spec.interactive { self.options.limits_with_person } else { self.options.limits },
        };
        tracing::debug!(command = self.config.command, interactive = spec.interactive, "running credential plugin");
        if spec.lock_file_path.is_none() {
            return self.world.runner.run(program).await.map(Started::Ended);
        }
        if self.is_proxy.load(Ordering::Relaxed) && !spec.interactive {
            program.limits.time = program.limits.time.min(PROXY_START);
        }
        self.world.runner.start(program, proxy_answer).await
    }

    /// Whoever cannot have a lock file can still have a token.
    fn lock_file_path(&self) -> Option<String> {
        let lock_file = self.options.lock_file.as_ref().filter(|_| self.config.api_version != ApiVersion::V1alpha1)?;
        match lock_file.path() {
            Ok(path) => path.into_os_string().into_string().ok(),
            Err(error) => {
                // Not louder: most plugins never wanted to, and some programs have no place for files.
                tracing::debug!(%error, "no lock file, so no plugin can start a proxy");
                None
            }
        }
    }

    fn interactive(&self) -> Result<bool, Error> {
        let terminal = self.world.env.stdin_is_terminal();
        let unavailable = self.stdin_unavailable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let needs_person = |obstacle| Error::NeedsPerson { command: self.config.command.clone(), obstacle };
        match self.config.interactive_mode {
            InteractiveMode::Never => Ok(false),
            InteractiveMode::IfAvailable => Ok(terminal && unavailable.is_none()),
            InteractiveMode::Always if !terminal => Err(needs_person(Obstacle::NotATerminal)),
            InteractiveMode::Always => match unavailable {
                Some(reason) => Err(needs_person(Obstacle::StdinUnavailable(reason))),
                None => Ok(true),
            },
        }
    }

    fn read_finished(&self, finished: &Finished, asked: &ExecCredentialSpec) -> Result<Fetched<Credential>, Error> {
        if !finished.ended.is_success() {
            let command = self.config.command.clone();
            let stderr = self.harmless(&finished.stderr, &finished.stdout);
            let message = failure_message(&finished.stdout)
                .map(|message| self.harmless(message.as_bytes(), &[]))
                .unwrap_or_else(|| last_line(&stderr));
            return Err(Error::Failed { command, ended: finished.ended, message, stderr });
        }
        self.read(&finished.stdout, &finished.stderr, asked, None)
    }

    /// What `process` answered, if it goes on, or somebody who has ended.
    fn read(
        &self,
        stdout: &[u8],
        stderr: &[u8],
        asked: &ExecCredentialSpec,
        process: Option<Process>,
    ) -> Result<Fetched<Credential>, Error> {
        let nonsense = |reason| Error::Nonsense {
            command: self.config.command.clone(),
            reason,
            stderr: self.harmless(stderr, stdout),
        };
        let status = ExecCredentialStatus::decode(stdout, self.config.api_version, asked)
            .map_err(|error| nonsense(Nonsense::Answer(error)))?;
        let certificate = if status.client_certificate_data.is_empty() {
            None
        } else {
            let leaf = keypair::check(&status.client_certificate_data, &status.client_key_data)
                .map_err(|error| nonsense(Nonsense::KeyPair(error)))?;
            let (chain_pem, key_pem) = (status.client_certificate_data, status.client_key_data);
            Some(ClientCertificate { chain_pem, key_pem, leaf })
        };
        let token = Some(status.token).filter(|token| !token.is_empty());
        let proxy = status.proxy_config.map(|config| Proxy { config, process });
        Ok(Fetched { value: Credential { token, certificate, proxy }, expires: status.expiration_timestamp })
    }

    fn not_installed(&self, reason: crate::LookupError) -> Error {
        let hint = &self.config.install_hint;
        let shown =
            reason.is_missing() && !hint.is_empty() && self.install_hint.once_more(self.world.clock.monotonic());
        Error::NotInstalled { reason, install_hint: shown.then(|| visible(hint)) }
    }

    fn not_finished(&self, reason: RunError) -> Error {
        let command = self.config.command.clone();
        match reason {
            RunError::TimedOut { .. } | RunError::TooMuchOutput { .. } => {
                let stderr = self.harmless(reason.stderr(), &[]);
                Error::Ended { command, reason, stderr }
            }
            _ => {
                let authorities = self.cluster.as_ref().map(|cluster| cluster.certificate_authority_data.len());
                // Base64 is what is passed.
                let certificate_authority_bytes = authorities.unwrap_or_default().div_ceil(3) * 4;
                Error::NotStarted { command, reason, certificate_authority_bytes }
            }
        }
    }

    /// Foreign text without secrets and without escape sequences. The secrets we know of are the variables that the
    /// kubeconfig passes, and what stands in the answer of a plugin that then failed.
    fn harmless(&self, text: &[u8], stdout: &[u8]) -> String {
        harmless(text, stdout, self.config.env.iter().map(|variable| &variable.value))
    }
}

impl Source for ExecPlugin {
    type Value = Credential;
    type Error = Error;

    async fn fetch(&self, why: &Why) -> Result<Fetched<Credential>, Error> {
        for pause in AFTER_KILLS {
            match self.run(why).await {
                Err(error) if self.deserves_another_run(&error) => {
                    tracing::debug!(%error, ?pause, "running the credential plugin again");
                    self.world.clock.sleep(pause).await;
                }
                result => return result,
            }
        }
        self.run(why).await
    }

    /// A person is not asked for a password behind their back.
    fn may_run_ahead(&self) -> bool {
        !self.interactive().unwrap_or(true)
    }

    fn backed_off(&self) {
        self.world.observer.observe(&Event::BackedOff);
    }

    fn abandoned(&self) -> Error {
        Error::Abandoned { command: self.config.command.clone() }
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

/// Rule 87 of the specification; what Go has no word for counts as the nearest one.
fn call_status(started: &Result<Started, Error>) -> (CallStatus, i32) {
    match started {
        Ok(Started::Alive { .. }) => (CallStatus::NoError, 0),
        Ok(Started::Ended(finished)) if finished.ended.is_success() => (CallStatus::NoError, 0),
        Ok(Started::Ended(finished)) => (CallStatus::PluginExecutionError, finished.ended.code()),
        Err(Error::Ended { .. }) => (CallStatus::PluginExecutionError, -1),
        Err(Error::NotInstalled { .. } | Error::NotStarted { reason: RunError::Start { .. }, .. }) => {
            (CallStatus::PluginNotFoundError, 1)
        }
        Err(_) => (CallStatus::ClientInternalError, 1),
    }
}
