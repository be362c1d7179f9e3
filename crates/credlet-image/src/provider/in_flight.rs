//! Runs of a provider that are in flight or failed recently, by cache key.
//!
//! Each key has a [`RefreshingCache`], used here only to share one run among all callers and to repeat its error during backoff.
//! Responses are stored in the [`ResponseCache`](super::cache::ResponseCache), and a successful run is removed from the map.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use credlet_exec::{FetchReason, FetchedValue, RefreshingCache, Source};

use super::run::AccountContext;
use super::{Provider, ProviderResponse, base_key};
use crate::error::ProviderError;
use crate::metrics::add_one;
use crate::name::ImageName;

/// How long failed runs are kept once [`MAX_RUNS`] is reached.
const FAILURE_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Number of runs from which old failures are evicted.
const MAX_RUNS: usize = 4096;

#[derive(Default)]
pub(super) struct InFlightRuns {
    by_key: HashMap<Vec<u8>, InFlightRun>,
}

struct InFlightRun {
    run: RefreshingCache<RunSource>,
    failed_at: Option<Duration>,
}

impl InFlightRuns {
    /// Returns the run for this key: one that is in flight, one that failed recently, or a new one for `image`.
    pub(super) fn join(
        &mut self,
        provider: &Arc<Provider>,
        key: Vec<u8>,
        image: &ImageName,
        account: Option<Arc<AccountContext>>,
    ) -> RefreshingCache<RunSource> {
        if let Some(in_flight) = self.by_key.get(&key) {
            return in_flight.run.clone();
        }
        let context = &provider.context;
        if self.by_key.len() >= MAX_RUNS {
            self.evict_failures(context.platform.clock.monotonic());
        }
        let source = RunSource {
            provider: Arc::downgrade(provider),
            name: provider.config.name.clone(),
            key: key.clone(),
            image: image.clone(),
            account,
        };
        let run = RefreshingCache::new(source, Arc::clone(&context.platform.clock), context.options.refresh_policy);
        self.by_key.insert(key, InFlightRun { run: run.clone(), failed_at: None });
        run
    }

    /// Removes and returns a completed run, so that the next caller starts a new one.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<RefreshingCache<RunSource>> {
        self.by_key.remove(key).map(|in_flight| in_flight.run)
    }

    fn mark_failed(&mut self, key: &[u8], now: Duration) {
        if let Some(in_flight) = self.by_key.get_mut(key) {
            in_flight.failed_at = Some(now);
        }
    }

    /// Ends the backoff of all failed runs.
    pub(super) fn invalidate_failures(&mut self) {
        for in_flight in self.by_key.values_mut() {
            if in_flight.failed_at.take().is_some() {
                in_flight.run.invalidate();
            }
        }
    }

    fn evict_failures(&mut self, now: Duration) {
        let is_recent = |failed_at: Duration| now.saturating_sub(failed_at) < FAILURE_LIFETIME;
        self.by_key.retain(|_, in_flight| in_flight.failed_at.is_none_or(is_recent));
        if self.by_key.len() >= MAX_RUNS {
            self.by_key.retain(|_, in_flight| in_flight.failed_at.is_none());
        }
    }
}

/// Runs the provider once for an image.
pub(super) struct RunSource {
    provider: Weak<Provider>,
    name: String,
    key: Vec<u8>,
    image: ImageName,
    account: Option<Arc<AccountContext>>,
}

/// Response of a completed run. No two runs have equal responses.
pub(super) struct CompletedRun(pub(super) Arc<ProviderResponse>);

impl PartialEq for CompletedRun {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Source for RunSource {
    type Value = CompletedRun;
    type Error = ProviderError;

    async fn fetch(&self, _: &FetchReason) -> Result<FetchedValue<CompletedRun>, ProviderError> {
        let provider = self.provider.upgrade().ok_or_else(|| self.cancelled())?;
        match provider.run(&self.image, self.account.as_deref()).await {
            Ok(response) => {
                let response = Arc::new(response);
                provider.counters.completed("ok");
                let account_key = self.account.as_ref().map(|account| account.key.as_slice()).unwrap_or_default();
                provider.publish(&self.key, account_key, &response, base_key(response.scope, &self.image));
                Ok(FetchedValue { value: CompletedRun(response), expires: None })
            }
            Err(error) => {
                provider.counters.completed(error.outcome());
                tracing::warn!(provider = self.name, image = %self.image, "failed to get image credentials: {error}");
                provider.lock().in_flight.mark_failed(&self.key, provider.context.platform.clock.monotonic());
                Err(error)
            }
        }
    }

    fn on_backoff(&self) {
        if let Some(provider) = self.provider.upgrade() {
            add_one(&provider.counters.back_offs);
        }
    }

    fn cancelled(&self) -> ProviderError {
        ProviderError::Abandoned { provider: self.name.clone() }
    }
}
