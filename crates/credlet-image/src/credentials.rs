//! All providers together: which are asked for an image, side by side, and what of their answers is tried.

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
use credlet_core::{Inherit, Limits, Patience, World, look_up as find_program};

use crate::account::{AccountOnce, NotAsked};
use crate::config::{Config, ConfigError, FileProblem, Mistake, ProviderConfig, Reason};
use crate::index::PatternIndex;
use crate::keyring::{Keyring, look_up_target};
use crate::metrics::Metrics;
use crate::name::{ImageName, NameError};
use crate::pattern::Target;
use crate::provider::{Account, Came, Provider, binary};
use crate::service_account::{Coordinates, Pod, ServiceAccounts};
use crate::tokens::KeptTokens;
use crate::trace::{Outcome, Skipped, Step, Trace};
use crate::watch::Watch;

/// The providers of a node, with everything they have answered.
///
/// ```no_run
/// use credlet_core::World;
/// use credlet_image::{Asking, ImageCredentials, Options};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let credentials = ImageCredentials::load(
///     "/etc/kubernetes/image-credential-provider-config.yaml",
///     "/usr/libexec/kubernetes/image-credential-providers",
///     Options::default(),
///     World::system(),
/// )?;
/// let found = credentials.look_up("registry.example/team/app:v1", &Asking::default()).await?;
/// for credential in &found.credentials {
///     println!("{} from {}", credential.auth.username, credential.origin);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ImageCredentials {
    config: PathBuf,
    setting: Arc<Setting>,
    providers: ArcSwap<Providers>,
    watch: Watch,
    /// Why the configuration that is there now is not the one in use.
    problem: ArcSwapOption<ConfigError>,
}

/// How providers are run, apart from what their configuration says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How long a provider may take: 60 s.
    pub timeout: Duration,
    /// How long some of them may take, by name.
    pub timeouts: BTreeMap<String, Duration>,
    /// Which of our variables they see: all, as the kubelet's do.
    pub inherit: Inherit,
    /// How many answers of one provider are remembered at most: 10,000.
    pub largest_cache: usize,
    /// How long a provider that failed is left alone.
    pub patience: Patience,
    /// Who knows service accounts. Without, providers that need one are passed over with an error.
    pub accounts: Option<Arc<dyn ServiceAccounts>>,
    /// How often a look-up sees whether the configuration has changed, and takes it over: every 10 s at most. `None`:
    /// never, that is for [`ImageCredentials::reload`].
    pub reload_every: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Limits::ALONE.time,
            timeouts: BTreeMap::new(),
            inherit: Inherit::ALL,
            largest_cache: 10_000,
            patience: Patience::default(),
            accounts: None,
            reload_every: Some(Duration::from_secs(10)),
        }
    }
}

impl Options {
    pub(crate) fn timeout_of(&self, provider: &str) -> Duration {
        self.timeouts.get(provider).copied().unwrap_or(self.timeout)
    }
}

/// What all providers have in common.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) bin_dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) accounts: Option<Arc<dyn ServiceAccounts>>,
    pub(crate) world: World,
    pub(crate) metrics: Arc<Metrics>,
}

/// The providers of one configuration.
#[derive(Debug)]
struct Providers {
    hash: String,
    all: Vec<Arc<Provider>>,
    /// The patterns of all of them, and for each its provider and its place there.
    index: PatternIndex,
    places: Vec<(usize, usize)>,
}

/// Who wants an image, and which credentials come with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asking<'a> {
    /// The pod, for providers that know service accounts.
    pub pod: Option<&'a Pod>,
    /// Those of the pod's pull secrets. They come first.
    pub pull_secrets: &'a [Keyring],
    /// Those of the node's docker configuration. They come second.
    pub node: Option<&'a Keyring>,
    /// Whether the trace should say of every pattern why it did not match.
    pub near_misses: bool,
}

/// What is tried for an image, in order, and how it came to that.
#[derive(Clone, Debug)]
pub struct LookUp {
    /// The image.
    pub image: ImageName,
    /// None: it is pulled without credentials.
    pub credentials: Vec<Found>,
    /// What was decided on the way.
    pub trace: Trace,
}

/// What came of asking one provider.
#[derive(Clone, Debug)]
pub struct SingleRun {
    /// The image.
    pub image: ImageName,
    /// What it was asked, with another word in the token's place. `None`: it was not asked.
    pub request: Option<CredentialProviderRequest>,
    /// What came of it.
    pub outcome: Outcome,
}

/// A credential for an image.
#[derive(Clone, Debug)]
pub struct Found {
    /// The key that matched, in its normal form.
    pub key: String,
    /// The credential.
    pub auth: AuthConfig,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a credential comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The pod's pull secret of this number.
    PullSecret(usize),
    /// The node's docker configuration.
    Node,
    /// A provider.
    Provider {
        /// Its name.
        name: String,
        /// For whose service account it answered, if for any.
        account: Option<Coordinates>,
    },
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PullSecret(number) => write!(f, "pull secret {number}"),
            Self::Node => f.write_str("the node's docker configuration"),
            Self::Provider { name, .. } => f.write_str(name),
        }
    }
}

impl ImageCredentials {
    /// Reads the configuration and finds the binaries. Nothing is run yet.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn load(
        config: impl Into<PathBuf>,
        bin_dir: impl Into<PathBuf>,
        options: Options,
        world: World,
    ) -> Result<Self, ConfigError> {
        let metrics = Arc::default();
        let keeping = |accounts| Arc::new(KeptTokens::new(accounts, Arc::clone(&world.clock))) as _;
        let accounts = options.accounts.clone().map(keeping);
        let setting = Arc::new(Setting { bin_dir: bin_dir.into(), options, accounts, world, metrics });
        let config = config.into();
        let watch = Watch::new(&config, setting.world.clock.monotonic());
        let read = read(&config, &setting)?;
        setting.metrics.applied(&read.hash);
        let providers = ArcSwap::from_pointee(Providers::new(read, &setting, &[]));
        Ok(Self { config, setting, providers, watch, problem: ArcSwapOption::empty() })
    }

    /// Takes a changed configuration over, if it is time to look for one. One that cannot be used is looked at again
    /// each time: it may be a binary that is missing yet.
    fn look_after(&self) {
        let now = self.setting.world.clock.monotonic();
        let every = self.setting.options.reload_every;
        let Some(changed) = every.and_then(|every| self.watch.look(&self.config, every, now)) else { return };
        if (changed || self.problem.load().is_some())
            && let Err(error) = self.reload()
            && changed
        {
            tracing::warn!("the changed configuration of image credential providers is not taken over: {error}");
        }
    }

    /// Why the configuration that is there now is not the one in use. `None`: it is, as far as anybody has looked.
    pub fn config_problem(&self) -> Option<Arc<ConfigError>> {
        self.problem.load_full()
    }

    /// Reads the configuration again. Providers that have not changed keep what they have answered. Says whether there
    /// was anything new.
    ///
    /// # Errors
    /// All mistakes at once; the last good configuration stays in use.
    pub fn reload(&self) -> Result<bool, ConfigError> {
        let read = match read(&self.config, &self.setting) {
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
        self.setting.metrics.applied(&read.hash);
        self.providers.store(Arc::new(Providers::new(read, &self.setting, &before.all)));
        Ok(true)
    }

    /// What is tried for an image.
    ///
    /// # Errors
    /// The image's name is none. What providers fail with is in the trace: the others' credentials count all the same.
    pub async fn look_up(&self, image: &str, asking: &Asking<'_>) -> Result<LookUp, NameError> {
        let image: ImageName = image.parse()?;
        self.look_after();
        let providers = self.providers.load_full();
        let target = Target::from(&image);
        let mut matched = vec![None; providers.all.len()];
        for number in providers.index.matching(&target) {
            let (provider, pattern) = providers.places[number];
            matched[provider].get_or_insert(pattern);
        }
        let account = AccountOnce::new(&self.setting, asking.pod);
        let asked = providers.all.iter().zip(&matched).filter(|(_, matched)| matched.is_some());
        let jobs = asked.map(|(provider, _)| match provider.at_hand(&image) {
            Some(answer) => Job::Done(Outcome::Remembered(answer)),
            None => Job::Running(Box::pin(ask(provider, &image, &account))),
        });
        let mut answers = join(jobs.collect()).await.into_iter();

        let mut keyrings = Vec::new();
        let mut steps = Vec::with_capacity(providers.all.len());
        for (provider, matched) in providers.all.iter().zip(matched) {
            let mut step = Step::new(provider, matched);
            match matched.and_then(|_| answers.next()) {
                None if asking.near_misses => step.near_misses(provider, &target),
                None => {}
                Some(outcome) => step.answered(outcome, steps.len(), &mut keyrings),
            }
            steps.push(step);
        }
        let credentials = collect(&image, &target, asking, &keyrings, &mut steps, &providers.all);
        let trace = Trace { image: image.clone(), config_hash: providers.hash.clone(), steps };
        Ok(LookUp { image, credentials, trace })
    }

    /// Asks one provider for an image, whether its patterns match or not, and whatever it has answered before.
    ///
    /// # Errors
    /// The image's name is none, or there is no such provider, which is said as if it were passed over.
    pub async fn run(&self, provider: &str, image: &str, asking: &Asking<'_>) -> Result<SingleRun, NameError> {
        let image: ImageName = image.parse()?;
        let providers = self.providers.load_full();
        let Some(provider) = providers.all.iter().find(|candidate| candidate.config.name == provider) else {
            return Ok(SingleRun { image, request: None, outcome: Outcome::Skipped(Skipped::NoSuchProvider) });
        };
        provider.invalidate(Some(&image));
        let told = AccountOnce::new(&self.setting, asking.pod).of(provider).await;
        let request = told.as_ref().ok().map(|account| {
            let token = account.as_ref().map(|_| Secret::new("[redacted]"));
            provider.request(&image, account.as_deref(), token)
        });
        let outcome = ask_about(provider, &image, told).await;
        Ok(SingleRun { image, request, outcome })
    }

    /// Forgets what is remembered for an image, or everything, and all failures: a registry has refused it.
    pub fn invalidate(&self, image: Option<&ImageName>) {
        self.providers.load().all.iter().for_each(|provider| provider.invalidate(image));
    }

    /// The providers, in their order.
    pub fn providers(&self) -> Vec<ProviderConfig> {
        self.providers.load().all.iter().map(|provider| provider.config.clone()).collect()
    }

    /// How many answers are remembered, in all.
    pub fn remembered(&self) -> usize {
        self.providers.load().all.iter().map(|provider| provider.len()).sum()
    }

    /// The last of what a provider's last run wrote to standard error, also if that was a success.
    pub fn last_stderr(&self, provider: &str) -> Option<String> {
        let providers = self.providers.load();
        let found = providers.all.iter().find(|candidate| candidate.config.name == provider);
        found.map(|provider| provider.last_stderr())
    }

    /// The hash of the configuration in use.
    pub fn config_hash(&self) -> String {
        self.providers.load().hash.clone()
    }

    /// What there is to see for Prometheus.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.setting.metrics
    }
}

/// Reads the configuration, and finds the binary of each provider as the kubelet does at its start.
fn read(config: &std::path::Path, setting: &Setting) -> Result<Config, ConfigError> {
    let mut mistakes = Vec::new();
    let bin_dir = &setting.bin_dir;
    let problem = match std::fs::metadata(bin_dir) {
        _ if bin_dir.as_os_str().is_empty() => Some(FileProblem::NotNamed),
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(FileProblem::NotADirectory),
        Err(error) => Some(FileProblem::Unreachable(error.kind())),
    };
    let has_bin_dir = problem.is_none();
    mistakes.extend(problem.map(|problem| Mistake::of_file(bin_dir.clone(), Reason::BinDir(problem))));
    let config = match Config::read(config) {
        Ok(config) => config,
        Err(error) => return Err(ConfigError { mistakes: [mistakes, error.mistakes].concat() }),
    };
    for provider in config.providers.iter().filter(|_| has_bin_dir) {
        if let Err(reason) = find_program(&binary(bin_dir, &provider.name), &*setting.world.env) {
            mistakes.push(Mistake::of_provider(provider, Reason::Binary(reason)));
        }
    }
    if mistakes.is_empty() { Ok(config) } else { Err(ConfigError { mistakes }) }
}

impl Providers {
    fn new(config: Config, setting: &Arc<Setting>, before: &[Arc<Provider>]) -> Self {
        let mut all = Vec::with_capacity(config.providers.len());
        let mut index = PatternIndex::default();
        let mut places = Vec::new();
        for (number, provider) in config.providers.into_iter().enumerate() {
            for (place, pattern) in provider.match_images.iter().enumerate() {
                index.add(pattern);
                places.push((number, place));
            }
            let unchanged = before.iter().find(|before| before.config.is_same_as(&provider));
            all.push(unchanged.map_or_else(|| Provider::new(provider, Arc::clone(setting)), Arc::clone));
        }
        Self { hash: config.hash, all, index, places }
    }
}

/// The keyrings one after the other, in the kubelet's order.
fn collect(
    image: &ImageName,
    target: &Target<'_>,
    asking: &Asking<'_>,
    keyrings: &[(usize, Arc<crate::provider::Answer>)],
    steps: &mut [Step],
    providers: &[Arc<Provider>],
) -> Vec<Found> {
    let mut found = Vec::new();
    let secrets: Vec<_> = asking.pull_secrets.iter().collect();
    for credential in look_up_target(&secrets, image.as_str(), target) {
        let origin = Origin::PullSecret(credential.keyring);
        found.push(Found { key: credential.key.to_owned(), auth: credential.auth.clone(), origin });
    }
    for credential in asking.node.map(|node| look_up_target(&[node], image.as_str(), target)).unwrap_or_default() {
        found.push(Found { key: credential.key.to_owned(), auth: credential.auth.clone(), origin: Origin::Node });
    }
    let rings: Vec<_> = keyrings.iter().map(|(_, answer)| &answer.keyring).collect();
    for credential in look_up_target(&rings, image.as_str(), target) {
        let (step, answer) = &keyrings[credential.keyring];
        steps[*step].kept.push(credential.key.to_owned());
        let origin = Origin::Provider { name: providers[*step].config.name.clone(), account: answer.account.clone() };
        found.push(Found { key: credential.key.to_owned(), auth: credential.auth.clone(), origin });
    }
    found
}

/// Asks one provider, or finds out why it is not asked.
async fn ask(provider: &Arc<Provider>, image: &ImageName, account: &AccountOnce<'_>) -> Outcome {
    ask_about(provider, image, account.of(provider).await).await
}

async fn ask_about(
    provider: &Arc<Provider>,
    image: &ImageName,
    told: Result<Option<Arc<Account>>, NotAsked>,
) -> Outcome {
    let came = match told {
        Ok(account) => provider.provide(image, account).await,
        Err(NotAsked::Skipped(skipped)) => return Outcome::Skipped(skipped),
        Err(NotAsked::Failed(error)) => Err(error),
    };
    match came {
        Ok(Came::Remembered(answer)) => Outcome::Remembered(answer),
        Ok(Came::Ran(answer)) => Outcome::Ran(answer),
        Err(error) => Outcome::Failed(error),
    }
}

/// Something that may be done already.
enum Job<F: Future> {
    Done(F::Output),
    Running(Pin<Box<F>>),
}

/// All results, in the order of the jobs, which make progress side by side.
async fn join<F: Future>(mut jobs: Vec<Job<F>>) -> Vec<F::Output> {
    std::future::poll_fn(|context| {
        let mut all = Poll::Ready(());
        for job in &mut jobs {
            if let Job::Running(future) = job {
                match future.as_mut().poll(context) {
                    Poll::Ready(result) => *job = Job::Done(result),
                    Poll::Pending => all = Poll::Pending,
                }
            }
        }
        all
    })
    .await;
    let done = |job| match job {
        Job::Done(result) => Some(result),
        Job::Running(_) => None,
    };
    jobs.into_iter().filter_map(done).collect()
}
