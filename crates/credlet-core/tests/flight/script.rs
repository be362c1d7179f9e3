use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use credlet_core::{Clock as _, Fetched, ManualClock, Source, Why};
use jiff::Timestamp;
use tokio::sync::Semaphore;

/// What a scripted source does when it is asked.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Token { token: &'static str, expires: Expires, gate: bool },
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

impl Answer {
    pub(crate) fn token(token: &'static str) -> Self {
        Self::Token { token, expires: Expires::Never, gate: false }
    }

    pub(crate) fn failure(error: &'static str) -> Self {
        Self::Failure(error)
    }

    pub(crate) fn living(self, lifetime: Duration) -> Self {
        self.expiring(Expires::In(lifetime))
    }

    pub(crate) fn expired_for(self, age: Duration) -> Self {
        self.expiring(Expires::Ago(age))
    }

    pub(crate) fn until(self, time: &'static str) -> Self {
        self.expiring(Expires::At(time))
    }

    /// Only after the gate was opened.
    pub(crate) fn at_gate(self) -> Self {
        match self {
            Self::Token { token, expires, .. } => Self::Token { token, expires, gate: true },
            other => other,
        }
    }

    fn expiring(self, expires: Expires) -> Self {
        match self {
            Self::Token { token, gate, .. } => Self::Token { token, expires, gate },
            other => other,
        }
    }
}

/// A source that answers by a script and counts. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    answers: Mutex<VecDeque<Answer>>,
    whys: Mutex<Vec<Why>>,
    under_way: AtomicUsize,
    ahead: AtomicBool,
    gate: Semaphore,
    clock: ManualClock,
}

impl Script {
    /// Without answers, every run gives another token.
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>, clock: ManualClock) -> Self {
        let inner = Inner {
            answers: Mutex::new(answers.into_iter().collect()),
            whys: Mutex::default(),
            under_way: AtomicUsize::new(0),
            ahead: AtomicBool::new(true),
            gate: Semaphore::new(0),
            clock,
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn runs(&self) -> usize {
        self.inner.whys.lock().unwrap().len()
    }

    pub(crate) fn last_why(&self) -> Why {
        self.inner.whys.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.inner.under_way.load(Ordering::SeqCst)
    }

    pub(crate) fn never_ahead(&self) {
        self.inner.ahead.store(false, Ordering::SeqCst);
    }

    pub(crate) fn open_gate(&self) {
        self.inner.gate.add_permits(1_000);
    }
}

impl Source for Script {
    type Value = String;
    type Error = String;

    async fn fetch(&self, why: &Why) -> Result<Fetched<String>, String> {
        struct UnderWay<'a>(&'a AtomicUsize);
        impl Drop for UnderWay<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }

        let inner = &*self.inner;
        inner.under_way.fetch_add(1, Ordering::SeqCst);
        let _under_way = UnderWay(&inner.under_way);
        let run = {
            let mut whys = inner.whys.lock().unwrap();
            whys.push(why.clone());
            whys.len()
        };
        let answer = {
            let mut answers = inner.answers.lock().unwrap();
            if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
        };
        // Callers get the chance to come at the same time.
        tokio::task::yield_now().await;
        match answer {
            None => Ok(Fetched { value: format!("token {run}"), expires: None }),
            Some(Answer::Token { token, expires, gate }) => {
                if gate {
                    let _ = inner.gate.acquire().await;
                }
                let now = inner.clock.now();
                let expires = match expires {
                    Expires::Never => None,
                    Expires::In(lifetime) => Some(now + lifetime),
                    Expires::Ago(age) => Some(now - age),
                    Expires::At(time) => Some(time.parse::<Timestamp>().unwrap()),
                };
                Ok(Fetched { value: token.to_owned(), expires })
            }
            Some(Answer::Failure(error)) => Err(error.to_owned()),
            Some(Answer::Panic) => panic!("as the script says"),
        }
    }

    fn may_run_ahead(&self) -> bool {
        self.inner.ahead.load(Ordering::SeqCst)
    }

    fn abandoned(&self) -> String {
        "abandoned".to_owned()
    }
}

/// Lets every task that can go on do so.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
