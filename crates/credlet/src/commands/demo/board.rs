//! What has been seen so far: written by the server, the issuer and the callers, read by whoever shows it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::issuer::Kind;
use super::latency::Latency;
use super::server::{Credential, Record, Refusal};

/// The time line's unit.
pub(super) const SLICE: Duration = Duration::from_millis(200);

/// Everybody's notes.
pub(super) struct Board {
    began: Instant,
    scene: Mutex<Scene>,
    changed: Notify,
}

/// All that can be shown, as of one moment.
#[derive(Clone, Default)]
pub(super) struct Scene {
    /// Since the beginning.
    pub(super) now: Duration,
    pub(super) checks: Vec<Check>,
    pub(super) answered: u64,
    pub(super) failed: u64,
    /// What the first request that failed was told.
    pub(super) failure: Option<String>,
    /// Plugin runs, and credentials that the server has accepted.
    pub(super) tokens: Track,
    pub(super) certificates: Track,
    /// When the server said no to a token that it had revoked.
    pub(super) revoked: Vec<Duration>,
    pub(super) watch: Option<Watch>,
    pub(super) latency: Latency,
    /// The longest a request took, in each slice of time.
    pub(super) slowest: Vec<Duration>,
}

/// The credentials of one kind.
#[derive(Clone, Default)]
pub(super) struct Track {
    pub(super) runs: usize,
    pub(super) turns: Vec<Turn>,
}

/// A credential, from the moment when the server first accepted it.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) from: Duration,
}

/// The watch that stays open.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) from: Duration,
    pub(super) events: Vec<Duration>,
    pub(super) until: Option<Duration>,
}

/// Something that should hold.
#[derive(Clone)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) seen: String,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Held,
    Broken,
}

impl Board {
    pub(super) fn new(checks: &[&'static str]) -> Self {
        let open = |what: &&'static str| Check { what, seen: String::new(), state: State::Open };
        let scene = Scene { checks: checks.iter().map(open).collect(), ..Scene::default() };
        Self { began: Instant::now(), scene: Mutex::new(scene), changed: Notify::new() }
    }

    /// As of now.
    pub(super) fn scene(&self) -> Scene {
        Scene { now: self.began.elapsed(), ..self.lock().clone() }
    }

    /// Looks at the notes without a copy of them.
    pub(super) fn look<T>(&self, at: impl FnOnce(&Scene) -> T) -> T {
        at(&self.lock())
    }

    /// Returns as soon as the notes fulfil a condition.
    pub(super) async fn until(&self, condition: impl Fn(&Scene) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// The issuer was asked: the how-manieth time.
    pub(super) fn plugin_ran(&self, kind: Kind) -> usize {
        self.note(|scene, _| {
            let track = scene.track(kind);
            track.runs += 1;
            track.runs
        })
    }

    /// The server has judged a request.
    pub(super) fn judged(&self, record: &Record) {
        self.note(|scene, now| match &record.who {
            Ok(user) => {
                let (kind, id) = match &user.credential {
                    Credential::Token(id) => (Kind::Token, id),
                    Credential::Certificate(id) => (Kind::Certificate, id),
                };
                let turns = &mut scene.track(kind).turns;
                // Requests under way when a credential is replaced may come after the first with the new one.
                if turns.iter().rev().all(|turn| turn.id != *id) {
                    turns.push(Turn { id: id.clone(), from: now });
                }
            }
            Err(Refusal::RevokedToken) => scene.revoked.push(now),
            Err(_) => {}
        });
    }

    /// A caller has its answer, after so long, or the reason why there is none.
    pub(super) fn answered(&self, took: Duration, outcome: Result<(), String>) {
        self.note(|scene, now| {
            match outcome {
                Ok(()) => scene.answered += 1,
                Err(reason) => {
                    scene.failed += 1;
                    scene.failure.get_or_insert(reason);
                }
            }
            scene.latency.add(took);
            let slice = slice(now);
            if scene.slowest.len() <= slice {
                scene.slowest.resize(slice + 1, Duration::ZERO);
            }
            scene.slowest[slice] = scene.slowest[slice].max(took);
        });
    }

    pub(super) fn watch_opened(&self) {
        self.note(|scene, now| scene.watch = Some(Watch { from: now, events: Vec::new(), until: None }));
    }

    pub(super) fn watch_event(&self) {
        self.note(|scene, now| scene.watch.iter_mut().for_each(|watch| watch.events.push(now)));
    }

    pub(super) fn watch_ended(&self) {
        self.note(|scene, now| scene.watch.iter_mut().for_each(|watch| watch.until = Some(now)));
    }

    /// Whether something held, and what was seen of it.
    pub(super) fn settle(&self, what: &str, held: bool, seen: impl Into<String>) {
        self.note(|scene, _| {
            if let Some(check) = scene.checks.iter_mut().find(|check| check.what == what) {
                check.state = if held { State::Held } else { State::Broken };
                check.seen = seen.into();
            }
        });
    }

    fn note<T>(&self, change: impl FnOnce(&mut Scene, Duration) -> T) -> T {
        let result = change(&mut self.lock(), self.began.elapsed());
        self.changed.notify_waiters();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scene {
    fn track(&mut self, kind: Kind) -> &mut Track {
        match kind {
            Kind::Token => &mut self.tokens,
            Kind::Certificate => &mut self.certificates,
        }
    }

    /// Whether all of it held; `None` while that is not known.
    pub(super) fn verdict(&self) -> Option<bool> {
        let open = self.checks.iter().any(|check| check.state == State::Open);
        (!open).then(|| self.checks.iter().all(|check| check.state == State::Held))
    }
}

/// Which slice of the time line a moment belongs to.
pub(super) fn slice(moment: Duration) -> usize {
    usize::try_from(moment.as_millis() / SLICE.as_millis()).unwrap_or(usize::MAX)
}
