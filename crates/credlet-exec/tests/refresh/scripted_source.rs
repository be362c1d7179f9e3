use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use credlet_exec::{Clock as _, FetchReason, FetchedValue, ManualClock, Source};
use jiff::Timestamp;
use tokio::sync::Semaphore;

/// Result of one fetch.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Token { token: &'static str, expires: Expires, blocked: bool },
    Failure(&'static str),
    Panic,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Expires {
    Never,
    In(Duration),
    Ago(Duration),
    At(&'static str),
}

impl Step {
    pub(crate) fn token(token: &'static str) -> Self {
        Self::Token { token, expires: Expires::Never, blocked: false }
    }

    pub(crate) fn failure(error: &'static str) -> Self {
        Self::Failure(error)
    }

    pub(crate) fn expires_in(self, lifetime: Duration) -> Self {
        self.with_expiry(Expires::In(lifetime))
    }

    pub(crate) fn expired_since(self, age: Duration) -> Self {
        self.with_expiry(Expires::Ago(age))
    }

    pub(crate) fn expires_at(self, time: &'static str) -> Self {
        self.with_expiry(Expires::At(time))
    }

    /// Blocks until [`ScriptedSource::release`].
    pub(crate) fn blocked(self) -> Self {
        match self {
            Self::Token { token, expires, .. } => Self::Token { token, expires, blocked: true },
            other => other,
        }
    }

    fn with_expiry(self, expires: Expires) -> Self {
        match self {
            Self::Token { token, blocked, .. } => Self::Token { token, expires, blocked },
            other => other,
        }
    }
}

/// A source that steps by a script and counts. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedSource {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    steps: Mutex<VecDeque<Step>>,
    reasons: Mutex<Vec<FetchReason>>,
    in_flight: AtomicUsize,
    may_prefetch: AtomicBool,
    release: Semaphore,
    clock: ManualClock,
}

impl ScriptedSource {
    /// Without steps, each fetch returns a different token.
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>, clock: ManualClock) -> Self {
        let inner = Inner {
            steps: Mutex::new(steps.into_iter().collect()),
            reasons: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            may_prefetch: AtomicBool::new(true),
            release: Semaphore::new(0),
            clock,
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn runs(&self) -> usize {
        self.inner.reasons.lock().unwrap().len()
    }

    pub(crate) fn last_reason(&self) -> FetchReason {
        self.inner.reasons.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.inner.in_flight.load(Ordering::SeqCst)
    }

    pub(crate) fn forbid_prefetch(&self) {
        self.inner.may_prefetch.store(false, Ordering::SeqCst);
    }

    pub(crate) fn release(&self) {
        self.inner.release.add_permits(1_000);
    }
}

impl Source for ScriptedSource {
    type Value = String;
    type Error = String;

    async fn fetch(&self, reason: &FetchReason) -> Result<FetchedValue<String>, String> {
        struct InFlightGuard<'a>(&'a AtomicUsize);
        impl Drop for InFlightGuard<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }

        let inner = &*self.inner;
        inner.in_flight.fetch_add(1, Ordering::SeqCst);
        let _in_flight = InFlightGuard(&inner.in_flight);
        let run = {
            let mut reasons = inner.reasons.lock().unwrap();
            reasons.push(reason.clone());
            reasons.len()
        };
        let step = {
            let mut steps = inner.steps.lock().unwrap();
            if steps.len() > 1 { steps.pop_front() } else { steps.front().cloned() }
        };
        // Lets concurrent callers join.
        tokio::task::yield_now().await;
        match step {
            None => Ok(FetchedValue { value: format!("token {run}"), expires: None }),
            Some(Step::Token { token, expires, blocked }) => {
                if blocked {
                    let _ = inner.release.acquire().await;
                }
                let now = inner.clock.now();
                let expires = match expires {
                    Expires::Never => None,
                    Expires::In(lifetime) => Some(now + lifetime),
                    Expires::Ago(age) => Some(now - age),
                    Expires::At(time) => Some(time.parse::<Timestamp>().unwrap()),
                };
                Ok(FetchedValue { value: token.to_owned(), expires })
            }
            Some(Step::Failure(error)) => Err(error.to_owned()),
            Some(Step::Panic) => panic!("scripted panic"),
        }
    }

    fn may_prefetch(&self) -> bool {
        self.inner.may_prefetch.load(Ordering::SeqCst)
    }

    fn cancelled(&self) -> String {
        "cancelled".to_owned()
    }
}

/// Polls all tasks that are ready.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
