//! One provider: its answers, remembered as widely and as long as they say, and its runs, one at a time for everybody
//! who could use the answer.
//!
//! Until a run has ended nobody knows how widely its answer may be used. So whoever needs one waits for a run that is
//! under way in the scope the provider last answered with, and takes its answer only if that answer covers the image;
//! otherwise there is a run of its own in the scope of that answer. Nobody can get an answer beyond its scope.

mod cache;
mod lane;
mod run;

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_api::image::{CacheKeyType, Remark};

use self::cache::{Cache, Now};
use self::lane::Lanes;
pub(crate) use self::run::{Account, Token, binary};
use crate::config::ProviderConfig;
use crate::credentials::Setting;
use crate::error::ProviderError;
use crate::keyring::Keyring;
use crate::metrics::{PluginMetrics, add_one};
use crate::name::ImageName;
use crate::service_account::{Coordinates, cache_key, write_cache_key};

/// The base key of an answer for everything.
const GLOBAL: &str = "<global>";

/// A provider and what it has answered.
pub(crate) struct Provider {
    pub(crate) config: ProviderConfig,
    setting: Arc<Setting>,
    counts: Arc<PluginMetrics>,
    state: Mutex<State>,
    last_scope: AtomicU8,
    last_stderr: Mutex<String>,
}

struct State {
    cache: Cache,
    lanes: Lanes,
}

impl State {
    /// The narrowest first.
    fn remembered(&mut self, image: &ImageName, account: &[u8], now: Now) -> Option<Arc<Answer>> {
        let mut key = Vec::with_capacity(image.as_str().len() + account.len() + 4);
        CacheKeyType::ALL.into_iter().find_map(|scope| {
            write_cache_key(&mut key, base(scope, image), account).ok()?;
            self.cache.get(&key, now)
        })
    }
}

/// What a run gave.
#[derive(Debug)]
pub struct Answer {
    pub(crate) image: String,
    pub(crate) registry: String,
    pub(crate) scope: CacheKeyType,
    pub(crate) lifetime: Duration,
    pub(crate) keyring: Keyring,
    pub(crate) account: Option<Coordinates>,
    pub(crate) took: Duration,
    pub(crate) remarks: Vec<Remark>,
}

impl Answer {
    /// Whether it may be used for this image.
    fn covers(&self, image: &ImageName) -> bool {
        match self.scope {
            CacheKeyType::Image => self.image == image.as_str(),
            CacheKeyType::Registry => self.registry == image.registry(),
            CacheKeyType::Global => true,
        }
    }
}

/// How a provider came by its answer.
#[derive(Clone, Debug)]
pub(crate) enum Came {
    /// It was remembered.
    Remembered(Arc<Answer>),
    /// It was run, or somebody else's run was waited for.
    Ran(Arc<Answer>),
}

fn base(scope: CacheKeyType, image: &ImageName) -> &str {
    match scope {
        CacheKeyType::Image => image.as_str(),
        CacheKeyType::Registry => image.registry(),
        CacheKeyType::Global => GLOBAL,
    }
}

impl Provider {
    pub(crate) fn new(config: ProviderConfig, setting: Arc<Setting>) -> Arc<Self> {
        let counts = setting.metrics.plugin(&config.name);
        let state = State { cache: Cache::new(setting.options.largest_cache), lanes: Lanes::default() };
        // Most answers are for a registry.
        let last_scope = AtomicU8::new(CacheKeyType::Registry as u8);
        let (state, last_stderr) = (Mutex::new(state), Mutex::default());
        Arc::new(Self { config, setting, counts, state, last_scope, last_stderr })
    }

    /// An answer that can be had without waiting for anything.
    pub(crate) fn at_hand(&self, image: &ImageName) -> Option<Arc<Answer>> {
        if self.config.service_account.is_some() { None } else { self.remembered(image, &[]) }
    }

    /// What is remembered for the image.
    fn remembered(&self, image: &ImageName, account: &[u8]) -> Option<Arc<Answer>> {
        let found = self.lock().remembered(image, account, self.now())?;
        add_one(&self.counts.hits);
        Some(found)
    }

    /// The answer for an image, from memory or from a run.
    pub(crate) async fn provide(
        self: &Arc<Self>,
        image: &ImageName,
        account: Option<Arc<Account>>,
    ) -> Result<Came, Arc<ProviderError>> {
        let account_key = account.as_ref().map(|account| account.key.as_slice()).unwrap_or_default();
        if let Some(answer) = self.remembered(image, account_key) {
            return Ok(Came::Remembered(answer));
        }
        add_one(&self.counts.misses);
        let too_long = |reason| Arc::new(ProviderError::TooLong { provider: self.config.name.clone(), reason });
        let mut scope = self.last_scope();
        loop {
            let key = cache_key(base(scope, image), account_key).map_err(too_long)?;
            let flight = {
                let mut state = self.lock();
                // A run may have ended since, and its lane is gone.
                if let Some(answer) = state.remembered(image, account_key, self.now()) {
                    return Ok(Came::Remembered(answer));
                }
                state.lanes.join(self, key, image, account.clone())
            };
            let entry = flight.get().await?;
            let answer = &entry.value().0;
            if answer.image == image.as_str() || answer.covers(image) {
                return Ok(Came::Ran(Arc::clone(answer)));
            }
            // An answer for something else. The next attempt is narrower, and the narrowest is for this very image.
            scope = if answer.scope == scope { CacheKeyType::Image } else { answer.scope };
        }
    }

    /// Forgets what is remembered for an image, or everything, and all failures.
    pub(crate) fn invalidate(&self, image: Option<&ImageName>) {
        let mut state = self.lock();
        state.cache.forget(|answer| image.is_none_or(|image| answer.covers(image)));
        state.lanes.forget_failures();
    }

    /// How many answers are remembered.
    pub(crate) fn len(&self) -> usize {
        self.lock().cache.len()
    }

    /// The last of what its last run wrote to standard error.
    pub(crate) fn last_stderr(&self) -> String {
        self.last_stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last_scope(&self) -> CacheKeyType {
        let number = self.last_scope.load(Ordering::Relaxed);
        CacheKeyType::ALL.into_iter().find(|scope| *scope as u8 == number).unwrap_or(CacheKeyType::Registry)
    }

    /// Takes an answer over. Whoever comes from now on finds it remembered.
    fn arrive(&self, lane: &[u8], account_key: &[u8], answer: &Arc<Answer>, base: &str) {
        self.last_scope.store(answer.scope as u8, Ordering::Relaxed);
        let now = self.now();
        let mut state = self.lock();
        if let Ok(key) = cache_key(base, account_key) {
            state.cache.put(key, Arc::clone(answer), answer.lifetime, now);
        }
        let lane = state.lanes.leave(lane);
        drop(state);
        drop(lane);
    }

    fn now(&self) -> Now {
        let clock = &self.setting.world.clock;
        Now { wall: clock.now(), monotonic: clock.monotonic() }
    }

    /// Nothing under the lock can panic half-way through a change, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("config", &self.config).finish_non_exhaustive()
    }
}
