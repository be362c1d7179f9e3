//! Single-flight refresh of one value: expiry, refresh ahead of expiry, backoff.
//!
//! ```text
//! Empty ──► Running ──► Fresh ──► Due (served while refreshing) ──► Expired ──► Running …
//!              │
//!              └──► Failed(until): the error is returned to all waiting callers, and to new callers before `until`
//! ```
//!
//! Reading a fresh value takes no lock. All other transitions happen under one short lock. A fetch runs in its own task, so
//! a caller that is cancelled does not cancel the fetch for the others.

mod entry;
mod policy;
mod timer;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use credlet_api::exec::FailedResponse;
use jiff::Timestamp;
use tokio::sync::SetOnce;
use tokio::task::AbortHandle;

pub use self::entry::CachedValue;
use self::entry::{ClockReading, Freshness};
pub use self::policy::RefreshPolicy;
use crate::Clock;

/// Fetches the values of a [`RefreshingCache`].
pub trait Source: Send + Sync + 'static {
    /// The fetched value. Equal values are the same credential and share a generation.
    type Value: PartialEq + Send + Sync + 'static;
    /// Error of a failed fetch, shared by all waiting callers.
    type Error: Send + Sync + 'static;

    /// Fetches a value. Dropping the future must stop everything that it started.
    fn fetch(
        &self,
        reason: &FetchReason,
    ) -> impl Future<Output = Result<FetchedValue<Self::Value>, Self::Error>> + Send;

    /// Whether a fetch may start in the background, without a waiting caller.
    fn may_prefetch(&self) -> bool {
        true
    }

    /// Called when a caller receives the previous error because the backoff has not elapsed.
    fn on_backoff(&self) {}

    /// Returns the error for a fetch whose task was dropped by a runtime shutdown or a panic.
    fn cancelled(&self) -> Self::Error;
}

/// Result of a successful [`Source::fetch`].
#[derive(Clone, Debug)]
pub struct FetchedValue<V> {
    /// The value to cache.
    pub value: V,
    /// Expiry. `None`: valid until the server rejects it.
    pub expires: Option<Timestamp>,
}

/// Reason for a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchReason {
    /// A caller waits: no value is cached, or it has expired.
    Miss,
    /// The value expires soon. No caller waits.
    Refresh,
    /// The server rejected the value with this response.
    Unauthorized(FailedResponse),
    /// The endpoint that the value refers to is no longer available.
    EndpointLost,
}

impl FetchReason {
    /// Returns the response that rejected the value.
    pub fn response(&self) -> Option<&FailedResponse> {
        match self {
            Self::Unauthorized(response) => Some(response),
            _ => None,
        }
    }
}

/// Caches one value and refreshes it. At most one fetch runs at a time; concurrent callers share its result.
///
/// Clones share the cache. Dropping the last clone cancels a running fetch.
pub struct RefreshingCache<S: Source> {
    handle: Arc<CacheHandle<S>>,
}

impl<S: Source> Clone for RefreshingCache<S> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<S: Source> RefreshingCache<S> {
    /// Creates an empty cache. Does not fetch.
    pub fn new(source: S, clock: Arc<dyn Clock>, policy: RefreshPolicy) -> Self {
        let shared = Shared { source, clock, policy, current: ArcSwapOption::empty(), state: Mutex::new(State::new()) };
        Self { handle: Arc::new(CacheHandle { shared: Arc::new(shared) }) }
    }

    /// Returns the source of the values.
    pub fn source(&self) -> &S {
        &self.handle.shared.source
    }

    /// Returns the value if it is fresh: one atomic load, without locking or waiting.
    pub fn fresh(&self) -> Option<Arc<CachedValue<S::Value>>> {
        let shared = &*self.handle.shared;
        let current = shared.current.load();
        let entry = current.as_ref()?;
        if !entry.is_fresh(&*shared.clock) {
            return None;
        }
        entry.mark_used();
        Some(Arc::clone(entry))
    }

    /// Returns the value, fetching it if none is cached or it has expired. A value that expires soon is returned at once
    /// and refreshed in the background.
    ///
    /// Cancel-safe: the fetch continues for other callers.
    ///
    /// # Errors
    /// The error of the shared fetch, or of the previous one until its backoff has elapsed.
    pub async fn get(&self) -> Result<Arc<CachedValue<S::Value>>, Arc<S::Error>> {
        if let Some(entry) = self.fresh() {
            return Ok(entry);
        }
        let entry = self.handle.shared.get_or_fetch().result().await?;
        entry.mark_used();
        Ok(entry)
    }

    /// Returns a replacement for `rejected`, which the server rejected with `response`. All holders of the same generation
    /// share one fetch.
    ///
    /// Returns `None` if the source returned the same value again or was asked less than
    /// [`RefreshPolicy::min_interval`] ago. The caller should then report the rejection.
    ///
    /// # Errors
    /// The error of the fetch. The rejected value stays cached, since the server may have been wrong.
    pub async fn replace(
        &self,
        rejected: &CachedValue<S::Value>,
        response: FailedResponse,
    ) -> Result<Option<Arc<CachedValue<S::Value>>>, Arc<S::Error>> {
        let entry = self.handle.shared.replace_rejected(rejected, response).result().await?;
        Ok(Some(entry).filter(|entry| entry.generation() != rejected.generation()))
    }

    /// Fetches again because the endpoint that the value of `generation` refers to was lost. Returns a new generation,
    /// even if the value is equal. All callers with the same generation share one fetch.
    ///
    /// The first fetch starts at once. If the endpoint is lost again soon, callers wait for an increasing backoff
    /// ([`RefreshPolicy::backoff_initial`] to [`RefreshPolicy::reestablish_backoff_max`]).
    ///
    /// # Errors
    /// The error of the fetch, or of the previous one until its backoff has elapsed.
    pub async fn reestablish(&self, generation: u64) -> Result<Arc<CachedValue<S::Value>>, Arc<S::Error>> {
        self.handle.shared.reestablish(generation).result().await
    }

    /// Removes the value, the last error and all backoff. A running fetch continues.
    pub fn invalidate(&self) {
        let shared = &*self.handle.shared;
        let mut state = shared.lock();
        state.last_failure = None;
        state.failures = 0;
        state.cooldown_until = Duration::ZERO;
        shared.current.store(None);
    }
}

impl<S: Source> fmt::Debug for RefreshingCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshingCache").finish_non_exhaustive()
    }
}

type FetchResult<S> = Result<Arc<CachedValue<<S as Source>::Value>>, Arc<<S as Source>::Error>>;

/// A result, or the fetch to wait for.
enum NextStep<S: Source> {
    Done(FetchResult<S>),
    Wait(Arc<SetOnce<FetchResult<S>>>),
}

impl<S: Source> NextStep<S> {
    async fn result(self) -> FetchResult<S> {
        match self {
            Self::Done(result) => result,
            Self::Wait(result) => result.wait().await.clone(),
        }
    }
}

/// Held by callers only. Tasks hold [`Shared`], so dropping the last handle means that no caller is left.
struct CacheHandle<S: Source> {
    shared: Arc<Shared<S>>,
}

impl<S: Source> Drop for CacheHandle<S> {
    fn drop(&mut self) {
        let state = self.shared.lock();
        let fetch = state.running.as_ref().map(|running| &running.task);
        for task in fetch.into_iter().chain(&state.refresh_timer) {
            task.abort();
        }
    }
}

struct Shared<S: Source> {
    source: S,
    clock: Arc<dyn Clock>,
    policy: RefreshPolicy,
    current: ArcSwapOption<CachedValue<S::Value>>,
    state: Mutex<State<S>>,
}

struct State<S: Source> {
    running: Option<RunningFetch<S>>,
    last_failure: Option<FailedFetch<S>>,
    /// Consecutive failed fetches.
    failures: u32,
    /// Consecutive attempts to re-establish an endpoint that was lost again soon.
    reestablish_attempts: u32,
    /// Until then, a cached value is not replaced.
    cooldown_until: Duration,
    /// The highest generation so far.
    last_generation: u64,
    refresh_timer: Option<AbortHandle>,
}

struct RunningFetch<S: Source> {
    result: Arc<SetOnce<FetchResult<S>>>,
    task: AbortHandle,
}

struct FailedFetch<S: Source> {
    error: Arc<S::Error>,
    backoff_until: Duration,
}

impl<S: Source> State<S> {
    fn new() -> Self {
        Self {
            running: None,
            last_failure: None,
            failures: 0,
            reestablish_attempts: 0,
            cooldown_until: Duration::ZERO,
            last_generation: 0,
            refresh_timer: None,
        }
    }

    /// Returns the last error until its backoff has elapsed.
    fn backoff_error(&self, now: ClockReading) -> Option<Arc<S::Error>> {
        let failure = self.last_failure.as_ref().filter(|failure| now.monotonic < failure.backoff_until);
        failure.map(|failure| Arc::clone(&failure.error))
    }
}

impl<S: Source> Shared<S> {
    fn now(&self) -> ClockReading {
        ClockReading { wall: self.clock.now(), monotonic: self.clock.monotonic() }
    }

    /// Ignores poisoning: no panic under the lock can leave the state half changed.
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get_or_fetch(self: &Arc<Self>) -> NextStep<S> {
        let mut state = self.lock();
        let now = self.now();
        if let Some(entry) = self.current.load_full() {
            match entry.freshness(now) {
                Freshness::Fresh => {}
                Freshness::Due => self.prefetch(&mut state, now),
                Freshness::Expired => return self.join_or_start(&mut state, now, FetchReason::Miss),
            }
            return NextStep::Done(Ok(entry));
        }
        self.join_or_start(&mut state, now, FetchReason::Miss)
    }

    fn replace_rejected(self: &Arc<Self>, rejected: &CachedValue<S::Value>, response: FailedResponse) -> NextStep<S> {
        let mut state = self.lock();
        let now = self.now();
        match self.current.load_full() {
            Some(entry) if entry.generation() != rejected.generation() => return NextStep::Done(Ok(entry)),
            Some(entry) if state.running.is_none() => {
                // The server has never accepted the replacement of an earlier rejection: another fetch is pointless.
                let is_futile = rejected.is_unaccepted_replacement(now, self.policy.min_interval);
                if is_futile || now.monotonic < state.cooldown_until {
                    return NextStep::Done(Ok(entry));
                }
            }
            _ => {}
        }
        self.join_or_start(&mut state, now, FetchReason::Unauthorized(response))
    }

    fn reestablish(self: &Arc<Self>, generation: u64) -> NextStep<S> {
        let mut state = self.lock();
        let now = self.now();
        let Some(entry) = self.current.load_full() else {
            return self.join_or_start(&mut state, now, FetchReason::EndpointLost);
        };
        if entry.generation() != generation {
            return NextStep::Done(Ok(entry));
        }
        if state.running.is_some() || state.backoff_error(now).is_some() {
            return self.join_or_start(&mut state, now, FetchReason::EndpointLost);
        }
        if entry.age(now) >= self.policy.healthy_after {
            state.reestablish_attempts = 0;
        }
        // After a failed fetch, the backoff has already delayed this one.
        let delay = match state.failures {
            0 => self.policy.reestablish_delay(state.reestablish_attempts),
            _ => Duration::ZERO,
        };
        state.reestablish_attempts = state.reestablish_attempts.saturating_add(1);
        NextStep::Wait(self.start_after(delay, &mut state, FetchReason::EndpointLost))
    }

    /// Starts a background fetch, unless one is running, the source does not allow it, or backoff or cooldown apply.
    fn prefetch(self: &Arc<Self>, state: &mut State<S>, now: ClockReading) {
        let is_blocked = state.running.is_some()
            || state.backoff_error(now).is_some()
            || now.monotonic < state.cooldown_until
            || !self.source.may_prefetch();
        if !is_blocked {
            self.start(state, FetchReason::Refresh);
        }
    }

    fn join_or_start(self: &Arc<Self>, state: &mut State<S>, now: ClockReading, reason: FetchReason) -> NextStep<S> {
        if let Some(running) = &state.running {
            return NextStep::Wait(Arc::clone(&running.result));
        }
        match state.backoff_error(now) {
            Some(error) => {
                self.source.on_backoff();
                NextStep::Done(Err(error))
            }
            None => NextStep::Wait(self.start(state, reason)),
        }
    }

    fn start(self: &Arc<Self>, state: &mut State<S>, reason: FetchReason) -> Arc<SetOnce<FetchResult<S>>> {
        self.start_after(Duration::ZERO, state, reason)
    }

    fn start_after(
        self: &Arc<Self>,
        delay: Duration,
        state: &mut State<S>,
        reason: FetchReason,
    ) -> Arc<SetOnce<FetchResult<S>>> {
        let result = Arc::new(SetOnce::new());
        let guard = CompletionGuard { shared: Arc::clone(self), result: Arc::clone(&result), is_complete: false };
        let task = tokio::spawn(async move {
            if !delay.is_zero() {
                guard.shared.clock.sleep(delay).await;
            }
            let start = guard.shared.clock.monotonic();
            let fetched = guard.shared.source.fetch(&reason).await;
            guard.complete(fetched, &reason, start);
        });
        state.running = Some(RunningFetch { result: Arc::clone(&result), task: task.abort_handle() });
        result
    }

    /// Makes a fetched value the current one and schedules its refresh.
    fn publish(
        self: &Arc<Self>,
        state: &mut State<S>,
        fetched: FetchedValue<S::Value>,
        reason: &FetchReason,
        fetch_duration: Duration,
    ) -> FetchResult<S> {
        let now = self.now();
        let previous = self.current.load_full();
        // A re-established endpoint is a new one, even if the value is equal.
        let same = previous
            .as_ref()
            .filter(|previous| *previous.value() == fetched.value && *reason != FetchReason::EndpointLost);
        let generation = same.map_or(state.last_generation + 1, |same| same.generation());
        let after_rejection = matches!(reason, FetchReason::Unauthorized(_));
        let entry = CachedValue::new(fetched, generation, now, fetch_duration, after_rejection, &self.policy);
        let is_rejected_value = same.is_some() && after_rejection;
        if is_rejected_value || entry.freshness(now) != Freshness::Fresh || entry.was_expired() {
            state.cooldown_until = now.monotonic + self.policy.min_interval;
        }
        if entry.was_expired() {
            tracing::warn!("received an expired credential: check the clock of this machine");
        }
        state.last_generation = state.last_generation.max(generation);
        state.last_failure = None;
        state.failures = 0;
        let entry = Arc::new(entry);
        self.current.store(Some(Arc::clone(&entry)));
        self.schedule_refresh(state, &entry, now);
        Ok(entry)
    }

    fn fail(&self, state: &mut State<S>, error: S::Error) -> FetchResult<S> {
        let error = Arc::new(error);
        let backoff_until = self.clock.monotonic() + self.policy.backoff(state.failures);
        state.failures = state.failures.saturating_add(1);
        state.last_failure = Some(FailedFetch { error: Arc::clone(&error), backoff_until });
        Err(error)
    }
}

/// Delivers a result to the waiting callers in any case: if the task is dropped, they receive [`Source::cancelled`].
struct CompletionGuard<S: Source> {
    shared: Arc<Shared<S>>,
    result: Arc<SetOnce<FetchResult<S>>>,
    is_complete: bool,
}

impl<S: Source> CompletionGuard<S> {
    fn complete(mut self, fetched: Result<FetchedValue<S::Value>, S::Error>, reason: &FetchReason, start: Duration) {
        self.is_complete = true;
        let fetch_duration = self.shared.clock.monotonic().saturating_sub(start);
        let mut state = self.shared.lock();
        state.running = None;
        let result = match fetched {
            Ok(fetched) => self.shared.publish(&mut state, fetched, reason, fetch_duration),
            Err(error) => self.shared.fail(&mut state, error),
        };
        drop(state);
        // Cannot fail: the only other setter is `drop`, which does nothing after completion.
        let _ = self.result.set(result);
    }
}

impl<S: Source> Drop for CompletionGuard<S> {
    fn drop(&mut self) {
        if !self.is_complete {
            // No backoff: the source did not fail.
            self.shared.lock().running = None;
            let _ = self.result.set(Err(Arc::new(self.shared.source.cancelled())));
        }
    }
}
