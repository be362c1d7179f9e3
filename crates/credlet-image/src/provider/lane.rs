//! Runs under way and runs that failed, each for one scope: a [`Flight`] lets everybody wait for the same one, and
//! remembers a failure for as long as it would be too soon to try again. Answers are remembered elsewhere.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use credlet_core::{Fetched, Flight, Source, Why};

use super::run::Account;
use super::{Answer, Provider, base};
use crate::error::ProviderError;
use crate::metrics::add_one;
use crate::name::ImageName;

/// How long a failure is known, and how many of them.
const REMEMBER_FAILURES: Duration = Duration::from_secs(15 * 60);
const MOST_LANES: usize = 4096;

#[derive(Default)]
pub(super) struct Lanes {
    by_key: HashMap<Vec<u8>, Lane>,
}

struct Lane {
    flight: Flight<Run>,
    failed: Option<Duration>,
}

impl Lanes {
    /// The run for this scope: one that is under way, one that failed just now, or a new one that asks for `image`.
    pub(super) fn join(
        &mut self,
        provider: &Arc<Provider>,
        key: Vec<u8>,
        image: &ImageName,
        account: Option<Arc<Account>>,
    ) -> Flight<Run> {
        if let Some(lane) = self.by_key.get(&key) {
            return lane.flight.clone();
        }
        let setting = &provider.setting;
        if self.by_key.len() >= MOST_LANES {
            self.make_room(setting.world.clock.monotonic());
        }
        let run = Run {
            provider: Arc::downgrade(provider),
            name: provider.config.name.clone(),
            lane: key.clone(),
            image: image.clone(),
            account,
        };
        let flight = Flight::new(run, Arc::clone(&setting.world.clock), setting.options.patience);
        self.by_key.insert(key, Lane { flight: flight.clone(), failed: None });
        flight
    }

    /// Takes a lane out, so that the next run there is a new one.
    pub(super) fn leave(&mut self, key: &[u8]) -> Option<Flight<Run>> {
        self.by_key.remove(key).map(|lane| lane.flight)
    }

    fn fail(&mut self, key: &[u8], now: Duration) {
        if let Some(lane) = self.by_key.get_mut(key) {
            lane.failed = Some(now);
        }
    }

    pub(super) fn forget_failures(&mut self) {
        for lane in self.by_key.values_mut() {
            if lane.failed.take().is_some() {
                lane.flight.forget();
            }
        }
    }

    fn make_room(&mut self, now: Duration) {
        let is_recent = |failed: Duration| now.saturating_sub(failed) < REMEMBER_FAILURES;
        self.by_key.retain(|_, lane| lane.failed.is_none_or(is_recent));
        if self.by_key.len() >= MOST_LANES {
            self.by_key.retain(|_, lane| lane.failed.is_none());
        }
    }
}

/// The run that a lane is for.
pub(super) struct Run {
    provider: Weak<Provider>,
    name: String,
    lane: Vec<u8>,
    image: ImageName,
    account: Option<Arc<Account>>,
}

/// An answer on its way to those who wait. No two runs give the same one.
pub(super) struct Landed(pub(super) Arc<Answer>);

impl PartialEq for Landed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Source for Run {
    type Value = Landed;
    type Error = ProviderError;

    async fn fetch(&self, _: &Why) -> Result<Fetched<Landed>, ProviderError> {
        let provider = self.provider.upgrade().ok_or_else(|| self.abandoned())?;
        match provider.run(&self.image, self.account.as_deref()).await {
            Ok(answer) => {
                let answer = Arc::new(answer);
                provider.counts.ended("ok");
                let account_key = self.account.as_ref().map(|account| account.key.as_slice()).unwrap_or_default();
                provider.arrive(&self.lane, account_key, &answer, base(answer.scope, &self.image));
                // It lives only for those who wait; what is remembered is in the cache.
                Ok(Fetched { value: Landed(answer), expires: None })
            }
            Err(error) => {
                provider.counts.ended(error.outcome());
                tracing::warn!(provider = self.name, image = %self.image, "no image credentials: {error}");
                provider.lock().lanes.fail(&self.lane, provider.setting.world.clock.monotonic());
                Err(error)
            }
        }
    }

    fn backed_off(&self) {
        if let Some(provider) = self.provider.upgrade() {
            add_one(&provider.counts.back_offs);
        }
    }

    fn abandoned(&self) -> ProviderError {
        ProviderError::Abandoned { provider: self.name.clone() }
    }
}
