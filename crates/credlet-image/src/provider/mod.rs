//! One provider, with its response cache and its runs.
//!
//! How widely a response may be used is known only when the run completes. A caller therefore joins a run in flight for the
//! scope of the provider's last response (`in_flight`), and uses its response only if that response covers the image. Otherwise
//! it starts or joins a run for the scope of that response. A response is never used outside its scope.

mod cache;
mod in_flight;
mod run;

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_api::image::{CacheKeyType, ResponseWarning};

use self::cache::{ClockReading, ResponseCache};
use self::in_flight::InFlightRuns;
pub(crate) use self::run::{AccountContext, AccountToken, binary_path};
use crate::config::ProviderConfig;
use crate::credentials::SharedContext;
use crate::error::ProviderError;
use crate::keyring::DockerKeyring;
use crate::metrics::{ProviderCounters, add_one};
use crate::name::ImageName;
use crate::service_account::{ServiceAccountRef, cache_key, write_cache_key};

/// Base key of responses with the scope `Global`.
const GLOBAL_KEY: &str = "<global>";

/// A provider with its cached responses and its runs in flight.
pub(crate) struct Provider {
    pub(crate) config: ProviderConfig,
    context: Arc<SharedContext>,
    counters: Arc<ProviderCounters>,
    state: Mutex<ProviderState>,
    last_scope: AtomicU8,
    last_stderr: Mutex<String>,
}

struct ProviderState {
    cache: ResponseCache,
    in_flight: InFlightRuns,
}

impl ProviderState {
    /// Returns the cached response with the narrowest scope.
    fn cached(&mut self, image: &ImageName, account: &[u8], now: ClockReading) -> Option<Arc<ProviderResponse>> {
        let mut key = Vec::with_capacity(image.as_str().len() + account.len() + 4);
        CacheKeyType::ALL.into_iter().find_map(|scope| {
            write_cache_key(&mut key, base_key(scope, image), account).ok()?;
            self.cache.get(&key, now)
        })
    }
}

/// Response of a provider run.
#[derive(Debug)]
pub struct ProviderResponse {
    pub(crate) image: String,
    pub(crate) registry: String,
    pub(crate) scope: CacheKeyType,
    pub(crate) lifetime: Duration,
    pub(crate) keyring: DockerKeyring,
    pub(crate) account: Option<ServiceAccountRef>,
    pub(crate) took: Duration,
    pub(crate) warnings: Vec<ResponseWarning>,
}

impl ProviderResponse {
    /// Whether the response may be used for this image.
    fn covers(&self, image: &ImageName) -> bool {
        match self.scope {
            CacheKeyType::Image => self.image == image.as_str(),
            CacheKeyType::Registry => self.registry == image.registry(),
            CacheKeyType::Global => true,
        }
    }
}

/// A response and where it came from.
#[derive(Clone, Debug)]
pub(crate) enum ProvidedResponse {
    /// From the cache.
    Cached(Arc<ProviderResponse>),
    /// From a run, which other callers may have shared.
    Ran(Arc<ProviderResponse>),
}

fn base_key(scope: CacheKeyType, image: &ImageName) -> &str {
    match scope {
        CacheKeyType::Image => image.as_str(),
        CacheKeyType::Registry => image.registry(),
        CacheKeyType::Global => GLOBAL_KEY,
    }
}

impl Provider {
    pub(crate) fn new(config: ProviderConfig, context: Arc<SharedContext>) -> Arc<Self> {
        let counters = context.metrics.plugin(&config.name);
        let state = ProviderState {
            cache: ResponseCache::new(context.options.max_cached_responses),
            in_flight: InFlightRuns::default(),
        };
        // Most providers use the scope `Registry`.
        let last_scope = AtomicU8::new(CacheKeyType::Registry as u8);
        let (state, last_stderr) = (Mutex::new(state), Mutex::default());
        Arc::new(Self { config, context, counters, state, last_scope, last_stderr })
    }

    /// A cached response of a provider that needs no service account.
    pub(crate) fn cached_without_account(&self, image: &ImageName) -> Option<Arc<ProviderResponse>> {
        if self.config.service_account.is_some() { None } else { self.cached(image, &[]) }
    }

    /// Returns the cached response for the image and counts the hit.
    fn cached(&self, image: &ImageName, account: &[u8]) -> Option<Arc<ProviderResponse>> {
        let found = self.lock().cached(image, account, self.now())?;
        add_one(&self.counters.hits);
        Some(found)
    }

    /// Returns the response for an image, from the cache or from a run.
    pub(crate) async fn provide(
        self: &Arc<Self>,
        image: &ImageName,
        account: Option<Arc<AccountContext>>,
    ) -> Result<ProvidedResponse, Arc<ProviderError>> {
        let account_key = account.as_ref().map(|account| account.key.as_slice()).unwrap_or_default();
        if let Some(response) = self.cached(image, account_key) {
            return Ok(ProvidedResponse::Cached(response));
        }
        add_one(&self.counters.misses);
        let too_long = |reason| Arc::new(ProviderError::TooLong { provider: self.config.name.clone(), reason });
        let mut scope = self.last_scope();
        loop {
            let key = cache_key(base_key(scope, image), account_key).map_err(too_long)?;
            let run = {
                let mut state = self.lock();
                // A run may have completed since the first check.
                if let Some(response) = state.cached(image, account_key, self.now()) {
                    return Ok(ProvidedResponse::Cached(response));
                }
                state.in_flight.join(self, key, image, account.clone())
            };
            let entry = run.get().await?;
            let response = &entry.value().0;
            if response.image == image.as_str() || response.covers(image) {
                return Ok(ProvidedResponse::Ran(Arc::clone(response)));
            }
            // The response does not cover this image. Retry in its scope, or in the scope `Image`, which always covers it.
            scope = if response.scope == scope { CacheKeyType::Image } else { response.scope };
        }
    }

    /// Evicts the responses for an image, or all of them, and ends the backoff of all failures.
    pub(crate) fn invalidate(&self, image: Option<&ImageName>) {
        let mut state = self.lock();
        state.cache.evict(|response| image.is_none_or(|image| response.covers(image)));
        state.in_flight.invalidate_failures();
    }

    /// The number of cached responses.
    pub(crate) fn len(&self) -> usize {
        self.lock().cache.len()
    }

    /// Returns the end of the last run's standard error.
    pub(crate) fn last_stderr(&self) -> String {
        self.last_stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last_scope(&self) -> CacheKeyType {
        let number = self.last_scope.load(Ordering::Relaxed);
        CacheKeyType::ALL.into_iter().find(|scope| *scope as u8 == number).unwrap_or(CacheKeyType::Registry)
    }

    /// Caches a response and removes its run, in this order under one lock, so that a late caller finds the response.
    fn publish(&self, run_key: &[u8], account_key: &[u8], response: &Arc<ProviderResponse>, base: &str) {
        self.last_scope.store(response.scope as u8, Ordering::Relaxed);
        let now = self.now();
        let mut state = self.lock();
        if let Ok(key) = cache_key(base, account_key) {
            state.cache.insert(key, Arc::clone(response), response.lifetime, now);
        }
        let run = state.in_flight.remove(run_key);
        drop(state);
        drop(run);
    }

    fn now(&self) -> ClockReading {
        let clock = &self.context.platform.clock;
        ClockReading { wall: clock.now(), monotonic: clock.monotonic() }
    }

    /// Ignores poisoning: no change under the lock can panic half-way.
    fn lock(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("config", &self.config).finish_non_exhaustive()
    }
}
