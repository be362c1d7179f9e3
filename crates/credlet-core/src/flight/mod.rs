//! The state machine in the middle: one run for everybody who asks, then patience.
//!
//! ```text
//! Empty ──► Running ──► Fresh ──► Due (served, renewed behind) ──► Expired ──► Running …
//!              │
//!              └──► Failed(until): everybody who waited gets this one error, and so does who asks before `until`
//! ```
//!
//! A fresh value is read without a lock. Everything else happens under one short lock, and the run itself in a task of
//! its own: a caller that gives up leaves, the run goes on for the others.

mod entry;
mod keeper;
mod patience;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use credlet_api::exec::Response;
use jiff::Timestamp;
use tokio::sync::SetOnce;
use tokio::task::AbortHandle;

pub use self::entry::Entry;
use self::entry::{Now, Phase};
pub use self::patience::Patience;
use crate::Clock;

/// Where values come from.
pub trait Source: Send + Sync + 'static {
    /// What is fetched. Two are the same credential when they are equal.
    type Value: PartialEq + Send + Sync + 'static;
    /// Why it could not be.
    type Error: Send + Sync + 'static;

    /// Fetches one. Dropping the future must stop whatever it has started.
    fn fetch(&self, why: &Why) -> impl Future<Output = Result<Fetched<Self::Value>, Self::Error>> + Send;

    /// Whether it may be asked while nobody waits for the answer.
    fn may_run_ahead(&self) -> bool {
        true
    }

    /// Called when somebody is given the last error again, because it is too soon for another fetch.
    fn backed_off(&self) {}

    /// The error for a fetch that was dropped half-way, by the end of its runtime or by a panic.
    fn abandoned(&self) -> Self::Error;
}

/// What a [`Source`] gave.
#[derive(Clone, Debug)]
pub struct Fetched<V> {
    /// The value.
    pub value: V,
    /// When it must no longer be used. `None`: good until it is refused.
    pub expires: Option<Timestamp>,
}

/// Why a source is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Somebody waits: there is no value, or it has expired.
    Wanted,
    /// The value will expire soon. Nobody waits.
    Ahead,
    /// The server refused the value, with this answer.
    Refused(Response),
    /// What the value leads to is not there any more.
    Gone,
}

impl Why {
    /// The answer that refused the value.
    pub fn response(&self) -> Option<&Response> {
        match self {
            Self::Refused(response) => Some(response),
            _ => None,
        }
    }
}

/// One value, kept fresh for everybody who shares this handle.
///
/// Clones share everything. When the last one is dropped, a run that is still under way is ended.
pub struct Flight<S: Source> {
    handle: Arc<Handle<S>>,
}

impl<S: Source> Clone for Flight<S> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<S: Source> Flight<S> {
    /// Nothing is fetched yet.
    pub fn new(source: S, clock: Arc<dyn Clock>, patience: Patience) -> Self {
        let shared =
            Shared { source, clock, patience, current: ArcSwapOption::empty(), state: Mutex::new(State::new()) };
        Self { handle: Arc::new(Handle { shared: Arc::new(shared) }) }
    }

    /// Where the values come from.
    pub fn source(&self) -> &S {
        &self.handle.shared.source
    }

    /// The value if it is fresh: one atomic load, no lock, no waiting.
    pub fn fresh(&self) -> Option<Arc<Entry<S::Value>>> {
        let shared = &*self.handle.shared;
        let current = shared.current.load();
        let entry = current.as_ref()?;
        if !entry.is_fresh(&*shared.clock) {
            return None;
        }
        entry.touch();
        Some(Arc::clone(entry))
    }

    /// The value, waiting for a run if there is none that can be used. One that is about to expire is given at once and
    /// renewed behind the caller's back.
    ///
    /// Cancel-safe: whoever stops waiting changes nothing for the others.
    ///
    /// # Errors
    /// That of the one run everybody waited for, or of the last one while its back-off lasts.
    pub async fn get(&self) -> Result<Arc<Entry<S::Value>>, Arc<S::Error>> {
        if let Some(entry) = self.fresh() {
            return Ok(entry);
        }
        let entry = self.handle.shared.want().result().await?;
        entry.touch();
        Ok(entry)
    }

    /// The value after `refused` was: the server said no to it, with `response`.
    ///
    /// Of all who hold the same value one causes a run, and all get its result. `None` says that there is nothing better
    /// for now, because the source gave the same value again or has just been asked: then the refusal stands.
    ///
    /// # Errors
    /// The refused value stays, since the server may have been wrong about it.
    pub async fn replace(
        &self,
        refused: &Entry<S::Value>,
        response: Response,
    ) -> Result<Option<Arc<Entry<S::Value>>>, Arc<S::Error>> {
        let entry = self.handle.shared.want_other_than(refused, response).result().await?;
        Ok(Some(entry).filter(|entry| entry.generation() != refused.generation()))
    }

    /// The value after `gone`, which may be worth the same: what it leads to is not there any more, and a run brings it
    /// back. Of all who say so of the same generation one causes a run, and all get its result.
    ///
    /// The first time that run begins at once. If what it brought is gone again soon, the next one comes after a pause,
    /// and each further one after a longer one ([`Patience::back_off_first`], [`Patience::return_at_most`]); callers wait
    /// meanwhile.
    ///
    /// # Errors
    /// That of the run, or of the last one while its back-off lasts.
    pub async fn bring_back(&self, gone: u64) -> Result<Arc<Entry<S::Value>>, Arc<S::Error>> {
        self.handle.shared.want_back(gone).result().await
    }

    /// Forgets the value, the last failure and all patience. A run under way goes on.
    pub fn forget(&self) {
        let shared = &*self.handle.shared;
        let mut state = shared.lock();
        state.failed = None;
        state.failures = 0;
        state.leave_alone_until = Duration::ZERO;
        shared.current.store(None);
    }
}

impl<S: Source> fmt::Debug for Flight<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").finish_non_exhaustive()
    }
}

type Outcome<S> = Result<Arc<Entry<<S as Source>::Value>>, Arc<<S as Source>::Error>>;

/// What a caller has to do next.
enum Step<S: Source> {
    Done(Outcome<S>),
    Wait(Arc<SetOnce<Outcome<S>>>),
}

impl<S: Source> Step<S> {
    async fn result(self) -> Outcome<S> {
        match self {
            Self::Done(outcome) => outcome,
            Self::Wait(outcome) => outcome.wait().await.clone(),
        }
    }
}

/// The callers' side. Tasks hold only what is inside, so that this knows when the last caller has gone.
struct Handle<S: Source> {
    shared: Arc<Shared<S>>,
}

impl<S: Source> Drop for Handle<S> {
    fn drop(&mut self) {
        let state = self.shared.lock();
        let run = state.running.as_ref().map(|running| &running.task);
        for task in run.into_iter().chain(&state.keeper) {
            task.abort();
        }
    }
}

struct Shared<S: Source> {
    source: S,
    clock: Arc<dyn Clock>,
    patience: Patience,
    current: ArcSwapOption<Entry<S::Value>>,
    state: Mutex<State<S>>,
}

struct State<S: Source> {
    running: Option<Running<S>>,
    failed: Option<Failed<S>>,
    /// How many runs have failed since the last success.
    failures: u32,
    /// How many runs in a row brought something back that was gone soon after.
    returns: u32,
    /// Before this, nobody asks for a value while there is one.
    leave_alone_until: Duration,
    generations: u64,
    keeper: Option<AbortHandle>,
}

struct Running<S: Source> {
    outcome: Arc<SetOnce<Outcome<S>>>,
    task: AbortHandle,
}

struct Failed<S: Source> {
    error: Arc<S::Error>,
    until: Duration,
}

impl<S: Source> State<S> {
    fn new() -> Self {
        Self {
            running: None,
            failed: None,
            failures: 0,
            returns: 0,
            leave_alone_until: Duration::ZERO,
            generations: 0,
            keeper: None,
        }
    }

    /// The last failure, while it is too soon to try again.
    fn backing_off(&self, now: Now) -> Option<Arc<S::Error>> {
        self.failed.as_ref().filter(|failed| now.monotonic < failed.until).map(|failed| Arc::clone(&failed.error))
    }
}

impl<S: Source> Shared<S> {
    fn now(&self) -> Now {
        Now { wall: self.clock.now(), monotonic: self.clock.monotonic() }
    }

    /// Nothing under the lock can panic half-way through a change, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(self: &Arc<Self>) -> Step<S> {
        let mut state = self.lock();
        let now = self.now();
        if let Some(entry) = self.current.load_full() {
            match entry.phase(now) {
                Phase::Fresh => {}
                Phase::Due => self.run_ahead(&mut state, now),
                Phase::Expired => return self.join_or_start(&mut state, now, Why::Wanted),
            }
            return Step::Done(Ok(entry));
        }
        self.join_or_start(&mut state, now, Why::Wanted)
    }

    fn want_other_than(self: &Arc<Self>, refused: &Entry<S::Value>, response: Response) -> Step<S> {
        let mut state = self.lock();
        let now = self.now();
        match self.current.load_full() {
            Some(entry) if entry.generation() != refused.generation() => return Step::Done(Ok(entry)),
            Some(entry) if state.running.is_none() => {
                // A replacement that is refused in its turn, and was never accepted: another would fare no better.
                let hopeless = refused.is_refused_replacement(now, self.patience.minimum_interval);
                if hopeless || now.monotonic < state.leave_alone_until {
                    return Step::Done(Ok(entry));
                }
            }
            _ => {}
        }
        self.join_or_start(&mut state, now, Why::Refused(response))
    }

    fn want_back(self: &Arc<Self>, gone: u64) -> Step<S> {
        let mut state = self.lock();
        let now = self.now();
        let Some(entry) = self.current.load_full() else { return self.join_or_start(&mut state, now, Why::Gone) };
        if entry.generation() != gone {
            return Step::Done(Ok(entry));
        }
        if state.running.is_some() || state.backing_off(now).is_some() {
            return self.join_or_start(&mut state, now, Why::Gone);
        }
        if entry.age(now) >= self.patience.healthy {
            state.returns = 0;
        }
        // After a run that failed, its back-off was the pause.
        let pause = if state.failures > 0 { Duration::ZERO } else { self.patience.before_return(state.returns) };
        state.returns = state.returns.saturating_add(1);
        Step::Wait(self.start_after(pause, &mut state, Why::Gone))
    }

    /// Starts a run for nobody in particular, unless that is unwelcome.
    fn run_ahead(self: &Arc<Self>, state: &mut State<S>, now: Now) {
        let unwelcome = state.running.is_some()
            || state.backing_off(now).is_some()
            || now.monotonic < state.leave_alone_until
            || !self.source.may_run_ahead();
        if !unwelcome {
            self.start(state, Why::Ahead);
        }
    }

    fn join_or_start(self: &Arc<Self>, state: &mut State<S>, now: Now, why: Why) -> Step<S> {
        if let Some(running) = &state.running {
            return Step::Wait(Arc::clone(&running.outcome));
        }
        match state.backing_off(now) {
            Some(error) => {
                self.source.backed_off();
                Step::Done(Err(error))
            }
            None => Step::Wait(self.start(state, why)),
        }
    }

    fn start(self: &Arc<Self>, state: &mut State<S>, why: Why) -> Arc<SetOnce<Outcome<S>>> {
        self.start_after(Duration::ZERO, state, why)
    }

    fn start_after(self: &Arc<Self>, pause: Duration, state: &mut State<S>, why: Why) -> Arc<SetOnce<Outcome<S>>> {
        let outcome = Arc::new(SetOnce::new());
        let landing = Landing { shared: Arc::clone(self), outcome: Arc::clone(&outcome), landed: false };
        let task = tokio::spawn(async move {
            if !pause.is_zero() {
                landing.shared.clock.sleep(pause).await;
            }
            let began = landing.shared.clock.monotonic();
            let result = landing.shared.source.fetch(&why).await;
            landing.land(result, &why, began);
        });
        state.running = Some(Running { outcome: Arc::clone(&outcome), task: task.abort_handle() });
        outcome
    }

    /// Takes a run's result over, whole.
    fn arrive(
        self: &Arc<Self>,
        state: &mut State<S>,
        fetched: Fetched<S::Value>,
        why: &Why,
        took: Duration,
    ) -> Outcome<S> {
        let now = self.now();
        let before = self.current.load_full();
        // What came back leads to something new, even if it looks the same.
        let same = before.as_ref().filter(|before| *before.value() == fetched.value && *why != Why::Gone);
        let generation = same.map_or(state.generations + 1, |same| same.generation());
        let refused_before = matches!(why, Why::Refused(_));
        let entry = Entry::new(fetched, generation, now, took, refused_before, &self.patience);
        let in_vain = same.is_some() && refused_before;
        if in_vain || entry.phase(now) != Phase::Fresh || entry.was_expired() {
            state.leave_alone_until = now.monotonic + self.patience.minimum_interval;
        }
        if entry.was_expired() {
            tracing::warn!("a credential had already expired when it was given: is this machine's clock right?");
        }
        state.generations = state.generations.max(generation);
        state.failed = None;
        state.failures = 0;
        let entry = Arc::new(entry);
        self.current.store(Some(Arc::clone(&entry)));
        self.keep(state, &entry, now);
        Ok(entry)
    }

    fn fail(&self, state: &mut State<S>, error: S::Error) -> Outcome<S> {
        let error = Arc::new(error);
        let pause = self.patience.back_off(state.failures);
        state.failures = state.failures.saturating_add(1);
        state.failed = Some(Failed { error: Arc::clone(&error), until: self.clock.monotonic() + pause });
        Err(error)
    }
}

/// The end of a run, which comes whatever happens to its task: nobody is left waiting.
struct Landing<S: Source> {
    shared: Arc<Shared<S>>,
    outcome: Arc<SetOnce<Outcome<S>>>,
    landed: bool,
}

impl<S: Source> Landing<S> {
    fn land(mut self, result: Result<Fetched<S::Value>, S::Error>, why: &Why, began: Duration) {
        self.landed = true;
        let took = self.shared.clock.monotonic().saturating_sub(began);
        let mut state = self.shared.lock();
        state.running = None;
        let outcome = match result {
            Ok(fetched) => self.shared.arrive(&mut state, fetched, why, took),
            Err(error) => self.shared.fail(&mut state, error),
        };
        drop(state);
        // The only other setter is the drop below, and it has not run.
        let _ = self.outcome.set(outcome);
    }
}

impl<S: Source> Drop for Landing<S> {
    fn drop(&mut self) {
        if !self.landed {
            // No back-off: the source has done nothing wrong.
            self.shared.lock().running = None;
            let _ = self.outcome.set(Err(Arc::new(self.shared.source.abandoned())));
        }
    }
}
