//! [`ImageCredentials`]: runs the providers that match an image and collects their credentials.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use credlet_api::Secret;
use credlet_api::image::{AuthConfig, CredentialProviderRequest};
use credlet_exec::{EnvInheritance, Platform, PluginPolicy, RefreshPolicy, RunLimits, find_program};

use crate::config::{
    ConfigError, ConfigFileError, ImageProvidersConfig, ProviderConfig, ProviderConfigFault, ProviderConfigProblem,
};
use crate::config_watcher::ConfigWatcher;
use crate::index::PatternIndex;
use crate::keyring::{DockerKeyring, look_up_target};
use crate::metrics::ImageProviderMetrics;
use crate::name::{ImageName, ImageNameError};
use crate::pattern::MatchTarget;
use crate::pod_account::{NotRun, PodAccount};
use crate::provider::{AccountContext, ProvidedResponse, Provider, binary_path};
use crate::service_account::{PodRef, ServiceAccountApi, ServiceAccountRef};
use crate::token_cache::ServiceAccountTokenCache;
use crate::trace::{LookupTrace, SkipReason, StepOutcome, TraceStep};

/// Providers of a node, with their cached responses.
///
/// ```no_run
/// use credlet_exec::Platform;
/// use credlet_image::{LookupRequest, ImageCredentials, ProviderOptions};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let credentials = ImageCredentials::load(
///     "/etc/kubernetes/image-credential-provider-config.yaml",
///     "/usr/libexec/kubernetes/image-credential-providers",
///     ProviderOptions::default(),
///     Platform::system(),
/// )?;
/// let found = credentials.look_up("registry.example/team/app:v1", &LookupRequest::default()).await?;
/// for credential in &found.credentials {
///     println!("{} from {}", credential.auth.username, credential.origin);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ImageCredentials {
    config: PathBuf,
    context: Arc<SharedContext>,
    providers: ArcSwap<ProviderSet>,
    watcher: ConfigWatcher,
    /// Error of the configuration on disk, if the one in use is older.
    problem: ArcSwapOption<ConfigError>,
}

/// Options of providers beside their configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProviderOptions {
    /// Timeout of a provider. Default: 60 s.
    pub timeout: Duration,
    /// Timeouts of single providers, by name.
    pub timeouts: BTreeMap<String, Duration>,
    /// Environment variables that providers inherit. Default: all, as in the kubelet.
    pub inherit: EnvInheritance,
    /// Policy for provider binaries. Default: all are allowed, because a kubelet trusts its configuration. Restrict it if
    /// configuration or directory come from an untrusted source.
    pub policy: PluginPolicy,
    /// Maximum number of cached responses per provider. Default: 10,000.
    pub max_cached_responses: usize,
    /// Backoff after a failed run.
    pub refresh_policy: RefreshPolicy,
    /// Access to service accounts. Default: none; providers that need one then fail.
    pub accounts: Option<Arc<dyn ServiceAccountApi>>,
    /// Minimum interval at which a lookup checks for a changed configuration. Default: 10 s. `None` disables the check; call
    /// [`ImageCredentials::reload`] instead.
    pub reload_every: Option<Duration>,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            timeout: RunLimits::NON_INTERACTIVE.timeout,
            timeouts: BTreeMap::new(),
            inherit: EnvInheritance::ALL,
            policy: PluginPolicy::ALLOW_ALL,
            max_cached_responses: 10_000,
            refresh_policy: RefreshPolicy::default(),
            accounts: None,
            reload_every: Some(Duration::from_secs(10)),
        }
    }
}

impl ProviderOptions {
    pub(crate) fn timeout_of(&self, provider: &str) -> Duration {
        self.timeouts.get(provider).copied().unwrap_or(self.timeout)
    }
}

/// Shared by all providers.
#[derive(Debug)]
pub(crate) struct SharedContext {
    pub(crate) bin_dir: PathBuf,
    pub(crate) options: ProviderOptions,
    pub(crate) accounts: Option<Arc<dyn ServiceAccountApi>>,
    pub(crate) platform: Platform,
    pub(crate) metrics: Arc<ImageProviderMetrics>,
}

/// The providers of one configuration.
#[derive(Debug)]
struct ProviderSet {
    hash: String,
    all: Vec<Arc<Provider>>,
    /// Patterns of all providers.
    index: PatternIndex,
    /// Provider and pattern number for each pattern of the index.
    pattern_refs: Vec<(usize, usize)>,
}

/// Parameters of a lookup beside the image.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookupRequest<'a> {
    /// Pod, for providers that use its service account.
    pub pod: Option<&'a PodRef>,
    /// Credentials of the pod's pull secrets, which are tried first.
    pub pull_secrets: &'a [DockerKeyring],
    /// Credentials of the node's docker configuration, which are tried second.
    pub node: Option<&'a DockerKeyring>,
    /// Whether the trace has the mismatches of every pattern.
    pub near_misses: bool,
}

/// Credentials for an image in the order in which they are tried, and the trace of the lookup.
#[derive(Clone, Debug)]
pub struct LookupResult {
    /// Normalised image name.
    pub image: ImageName,
    /// Empty if the image is pulled anonymously.
    pub credentials: Vec<ImageCredential>,
    /// Decisions of the lookup.
    pub trace: LookupTrace,
}

/// Result of running one provider.
#[derive(Clone, Debug)]
pub struct ProviderRun {
    /// Normalised image name.
    pub image: ImageName,
    /// The request with the token redacted. `None` if the provider was not run.
    pub request: Option<CredentialProviderRequest>,
    /// Response or failure, or why the provider was not run.
    pub outcome: StepOutcome,
}

/// Credential for an image.
#[derive(Clone, Debug)]
pub struct ImageCredential {
    /// The normalised key that matched.
    pub key: String,
    /// User name and password for the registry.
    pub auth: AuthConfig,
    /// Where the credential comes from.
    pub origin: CredentialOrigin,
}

/// Origin of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialOrigin {
    /// Pull secret with this index.
    PullSecret(usize),
    /// Docker configuration of the node.
    Node,
    /// Response of a provider, new or cached.
    Provider {
        /// Name of the provider.
        name: String,
        /// Service account of the request, if any.
        account: Option<ServiceAccountRef>,
    },
}

impl std::fmt::Display for CredentialOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PullSecret(number) => write!(f, "pull secret {number}"),
            Self::Node => f.write_str("the node's docker configuration"),
            Self::Provider { name, .. } => f.write_str(name),
        }
    }
}

impl ImageCredentials {
    /// Reads the configuration and checks that the binaries exist. No provider is run yet.
    ///
    /// # Errors
    /// All problems of the configuration.
    pub fn load(
        config: impl Into<PathBuf>,
        bin_dir: impl Into<PathBuf>,
        options: ProviderOptions,
        platform: Platform,
    ) -> Result<Self, ConfigError> {
        let metrics = Arc::default();
        let caching = |accounts| Arc::new(ServiceAccountTokenCache::new(accounts, Arc::clone(&platform.clock))) as _;
        let accounts = options.accounts.clone().map(caching);
        let context = Arc::new(SharedContext { bin_dir: bin_dir.into(), options, accounts, platform, metrics });
        let config = config.into();
        let watcher = ConfigWatcher::new(&config, context.platform.clock.monotonic());
        let read = read_config(&config, &context)?;
        context.metrics.applied(&read.hash);
        let providers = ArcSwap::from_pointee(ProviderSet::new(read, &context, &[]));
        Ok(Self { config, context, providers, watcher, problem: ArcSwapOption::empty() })
    }

    /// Reloads a changed configuration, if a check is due. An invalid one is read again at each check, because a missing binary may
    /// have been installed.
    fn reload_if_changed(&self) {
        let now = self.context.platform.clock.monotonic();
        let every = self.context.options.reload_every;
        let Some(changed) = every.and_then(|every| self.watcher.check(&self.config, every, now)) else { return };
        if (changed || self.problem.load().is_some())
            && let Err(error) = self.reload()
            && changed
        {
            tracing::warn!("failed to reload the configuration of image credential providers: {error}");
        }
    }

    /// Returns the error of the last reload, if it failed; the previous configuration is then still in use.
    pub fn config_problem(&self) -> Option<Arc<ConfigError>> {
        self.problem.load_full()
    }

    /// Reads the configuration again. Unchanged providers keep their cached responses. Returns whether the configuration changed.
    ///
    /// # Errors
    /// All problems of the configuration. The previous configuration stays in use.
    pub fn reload(&self) -> Result<bool, ConfigError> {
        let read = match read_config(&self.config, &self.context) {
            Ok(read) => read,
            Err(error) => {
                self.problem.store(Some(Arc::new(error.clone())));
                return Err(error);
            }
        };
        self.problem.store(None);
        let before = self.providers.load();
        if read.hash == before.hash {
            return Ok(false);
        }
        self.context.metrics.applied(&read.hash);
        self.providers.store(Arc::new(ProviderSet::new(read, &self.context, &before.all)));
        Ok(true)
    }

    /// Returns the credentials for an image. Runs the matching providers concurrently.
    ///
    /// # Errors
    /// If `image` is not the name of an image. Errors of providers are in the trace and do not affect other providers.
    pub async fn look_up(&self, image: &str, request: &LookupRequest<'_>) -> Result<LookupResult, ImageNameError> {
        let image: ImageName = image.parse()?;
        self.reload_if_changed();
        let providers = self.providers.load_full();
        let target = MatchTarget::from(&image);
        let mut matched = vec![None; providers.all.len()];
        for number in providers.index.matching(&target) {
            let (provider, pattern) = providers.pattern_refs[number];
            matched[provider].get_or_insert(pattern);
        }
        let account = PodAccount::new(&self.context, request.pod);
        let to_run = providers.all.iter().zip(&matched).filter(|(_, matched)| matched.is_some());
        let jobs = to_run.map(|(provider, _)| match provider.cached_without_account(&image) {
            Some(response) => JoinState::Done(StepOutcome::Cached(response)),
            None => JoinState::Running(Box::pin(run_provider(provider, &image, &account))),
        });
        let mut outcomes = join(jobs.collect()).await.into_iter();

        let mut keyrings = Vec::new();
        let mut steps = Vec::with_capacity(providers.all.len());
        for (provider, matched) in providers.all.iter().zip(matched) {
            let mut step = TraceStep::new(provider, matched);
            match matched.and_then(|_| outcomes.next()) {
                None if request.near_misses => step.near_misses(provider, &target),
                None => {}
                Some(outcome) => step.record(outcome, steps.len(), &mut keyrings),
            }
            steps.push(step);
        }
        let credentials = collect_credentials(&image, &target, request, &keyrings, &mut steps, &providers.all);
        let trace = LookupTrace { image: image.clone(), config_hash: providers.hash.clone(), steps };
        Ok(LookupResult { image, credentials, trace })
    }

    /// Runs one provider for an image, whether or not its patterns match, and ignores the cache. An unknown provider is reported as
    /// [`SkipReason::NoSuchProvider`].
    ///
    /// # Errors
    /// If `image` is not the name of an image.
    pub async fn run(
        &self,
        provider: &str,
        image: &str,
        request: &LookupRequest<'_>,
    ) -> Result<ProviderRun, ImageNameError> {
        let image: ImageName = image.parse()?;
        let providers = self.providers.load_full();
        let Some(provider) = providers.all.iter().find(|candidate| candidate.config.name == provider) else {
            return Ok(ProviderRun { image, request: None, outcome: StepOutcome::Skipped(SkipReason::NoSuchProvider) });
        };
        provider.invalidate(Some(&image));
        let account = PodAccount::new(&self.context, request.pod).for_provider(provider).await;
        let request = account.as_ref().ok().map(|account| {
            let token = account.as_ref().map(|_| Secret::new("[redacted]"));
            provider.request(&image, account.as_deref(), token)
        });
        let outcome = run_with_account(provider, &image, account).await;
        Ok(ProviderRun { image, request, outcome })
    }

    /// Evicts the cached responses for an image, or all of them, and ends the backoff of all failures. Call it when a registry rejects
    /// a credential.
    pub fn invalidate(&self, image: Option<&ImageName>) {
        self.providers.load().all.iter().for_each(|provider| provider.invalidate(image));
    }

    /// Returns the providers in configuration order.
    pub fn providers(&self) -> Vec<ProviderConfig> {
        self.providers.load().all.iter().map(|provider| provider.config.clone()).collect()
    }

    /// Returns the number of cached responses.
    pub fn cached_responses(&self) -> usize {
        self.providers.load().all.iter().map(|provider| provider.len()).sum()
    }

    /// Returns the end of the standard error of a provider's last run, whether or not it succeeded.
    pub fn last_stderr(&self, provider: &str) -> Option<String> {
        let providers = self.providers.load();
        let found = providers.all.iter().find(|candidate| candidate.config.name == provider);
        found.map(|provider| provider.last_stderr())
    }

    /// Returns the hash of the configuration in use.
    pub fn config_hash(&self) -> String {
        self.providers.load().hash.clone()
    }

    /// Returns the Prometheus metrics.
    pub fn metrics(&self) -> &Arc<ImageProviderMetrics> {
        &self.context.metrics
    }
}

/// Reads the configuration and checks the binary of each provider, as the kubelet does at start-up.
fn read_config(config: &std::path::Path, context: &SharedContext) -> Result<ImageProvidersConfig, ConfigError> {
    let mut problems = Vec::new();
    let bin_dir = &context.bin_dir;
    let problem = match std::fs::metadata(bin_dir) {
        _ if bin_dir.as_os_str().is_empty() => Some(ConfigFileError::NotNamed),
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(ConfigFileError::NotADirectory),
        Err(error) => Some(ConfigFileError::Unreachable(error.kind())),
    };
    let has_bin_dir = problem.is_none();
    problems.extend(
        problem.map(|problem| ProviderConfigProblem::for_file(bin_dir.clone(), ProviderConfigFault::BinDir(problem))),
    );
    let config = match ImageProvidersConfig::read(config) {
        Ok(config) => config,
        Err(error) => return Err(ConfigError { problems: [problems, error.problems].concat() }),
    };
    for provider in config.providers.iter().filter(|_| has_bin_dir) {
        if let Err(reason) = find_program(&binary_path(bin_dir, &provider.name), &*context.platform.env) {
            problems.push(ProviderConfigProblem::for_provider(provider, ProviderConfigFault::Binary(reason)));
        }
    }
    if problems.is_empty() { Ok(config) } else { Err(ConfigError { problems }) }
}

impl ProviderSet {
    fn new(config: ImageProvidersConfig, context: &Arc<SharedContext>, before: &[Arc<Provider>]) -> Self {
        let mut all = Vec::with_capacity(config.providers.len());
        let mut index = PatternIndex::default();
        let mut pattern_refs = Vec::new();
        for (number, provider) in config.providers.into_iter().enumerate() {
            for (pattern_number, pattern) in provider.match_images.iter().enumerate() {
                index.add(pattern);
                pattern_refs.push((number, pattern_number));
            }
            let unchanged = before.iter().find(|before| before.config.is_same_as(&provider));
            all.push(unchanged.map_or_else(|| Provider::new(provider, Arc::clone(context)), Arc::clone));
        }
        Self { hash: config.hash, all, index, pattern_refs }
    }
}

/// Collects the matching credentials in the kubelet's order: pull secrets, node, providers.
fn collect_credentials(
    image: &ImageName,
    target: &MatchTarget<'_>,
    request: &LookupRequest<'_>,
    keyrings: &[(usize, Arc<crate::provider::ProviderResponse>)],
    steps: &mut [TraceStep],
    providers: &[Arc<Provider>],
) -> Vec<ImageCredential> {
    let mut found = Vec::new();
    let secrets: Vec<_> = request.pull_secrets.iter().collect();
    for credential in look_up_target(&secrets, image.as_str(), target) {
        let origin = CredentialOrigin::PullSecret(credential.keyring);
        found.push(ImageCredential { key: credential.key.to_owned(), auth: credential.auth.clone(), origin });
    }
    for credential in request.node.map(|node| look_up_target(&[node], image.as_str(), target)).unwrap_or_default() {
        found.push(ImageCredential {
            key: credential.key.to_owned(),
            auth: credential.auth.clone(),
            origin: CredentialOrigin::Node,
        });
    }
    let rings: Vec<_> = keyrings.iter().map(|(_, response)| &response.keyring).collect();
    for credential in look_up_target(&rings, image.as_str(), target) {
        let (step, response) = &keyrings[credential.keyring];
        steps[*step].used_keys.push(credential.key.to_owned());
        let origin = CredentialOrigin::Provider {
            name: providers[*step].config.name.clone(),
            account: response.account.clone(),
        };
        found.push(ImageCredential { key: credential.key.to_owned(), auth: credential.auth.clone(), origin });
    }
    found
}

/// Runs one provider, or returns the reason for not running it.
async fn run_provider(provider: &Arc<Provider>, image: &ImageName, account: &PodAccount<'_>) -> StepOutcome {
    run_with_account(provider, image, account.for_provider(provider).await).await
}

async fn run_with_account(
    provider: &Arc<Provider>,
    image: &ImageName,
    account: Result<Option<Arc<AccountContext>>, NotRun>,
) -> StepOutcome {
    let response = match account {
        Ok(account) => provider.provide(image, account).await,
        Err(NotRun::Skipped(skipped)) => return StepOutcome::Skipped(skipped),
        Err(NotRun::Failed(error)) => Err(error),
    };
    match response {
        Ok(ProvidedResponse::Cached(response)) => StepOutcome::Cached(response),
        Ok(ProvidedResponse::Ran(response)) => StepOutcome::Ran(response),
        Err(error) => StepOutcome::Failed(error),
    }
}

/// A future or its result.
enum JoinState<F: Future> {
    Done(F::Output),
    Running(Pin<Box<F>>),
}

/// Polls all futures concurrently and returns their results in order.
async fn join<F: Future>(mut jobs: Vec<JoinState<F>>) -> Vec<F::Output> {
    std::future::poll_fn(|cx| {
        let mut all = Poll::Ready(());
        for job in &mut jobs {
            if let JoinState::Running(future) = job {
                match future.as_mut().poll(cx) {
                    Poll::Ready(result) => *job = JoinState::Done(result),
                    Poll::Pending => all = Poll::Pending,
                }
            }
        }
        all
    })
    .await;
    let done = |job| match job {
        JoinState::Done(result) => Some(result),
        JoinState::Running(_) => None,
    };
    jobs.into_iter().filter_map(done).collect()
}
