//! Events of the demo: recorded by server, issuer and callers, read by the renderer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_apiserver::ResponseRecord;
use credlet_apiserver::authn::{AuthnFailure, CredentialId};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::issuer::CredentialKind;
use super::latency::LatencyHistogram;

/// Time per column of the time line.
pub(super) const SLICE: Duration = Duration::from_millis(200);

/// Shared record of the demo.
pub(super) struct DemoState {
    began: Instant,
    snapshot: Mutex<DemoSnapshot>,
    changed: Notify,
}

/// The recorded events at one moment.
#[derive(Clone, Default)]
pub(super) struct DemoSnapshot {
    /// Time since the start.
    pub(super) now: Duration,
    pub(super) checks: Vec<DemoCheck>,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    /// Error of the first failed request.
    pub(super) failure: Option<String>,
    pub(super) tokens: CredentialHistory,
    pub(super) certificates: CredentialHistory,
    /// Times at which the server rejected a revoked token.
    pub(super) revoked: Vec<Duration>,
    pub(super) watch: Option<WatchHistory>,
    pub(super) latency: LatencyHistogram,
    /// Duration of the slowest request in each slice of time.
    pub(super) slowest: Vec<Duration>,
}

/// Plugin runs and accepted credentials of one kind.
#[derive(Clone, Default)]
pub(super) struct CredentialHistory {
    pub(super) runs: usize,
    pub(super) uses: Vec<CredentialUse>,
}

/// A credential and the time at which the server first accepted it.
#[derive(Clone)]
pub(super) struct CredentialUse {
    pub(super) id: String,
    pub(super) from: Duration,
}

/// Events of the long-running watch.
#[derive(Clone)]
pub(super) struct WatchHistory {
    pub(super) from: Duration,
    pub(super) events: Vec<Duration>,
    pub(super) until: Option<Duration>,
}

/// A check of the demo and its result.
#[derive(Clone)]
pub(super) struct DemoCheck {
    pub(super) what: &'static str,
    pub(super) details: String,
    pub(super) state: CheckState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckState {
    Pending,
    Passed,
    Failed,
}

impl DemoState {
    pub(super) fn new(checks: &[&'static str]) -> Self {
        let open = |what: &&'static str| DemoCheck { what, details: String::new(), state: CheckState::Pending };
        let snapshot = DemoSnapshot { checks: checks.iter().map(open).collect(), ..DemoSnapshot::default() };
        Self { began: Instant::now(), snapshot: Mutex::new(snapshot), changed: Notify::new() }
    }

    /// A copy of the current state.
    pub(super) fn snapshot(&self) -> DemoSnapshot {
        DemoSnapshot { now: self.began.elapsed(), ..self.lock().clone() }
    }

    /// Calls a function with the current state, without a copy.
    pub(super) fn with<T>(&self, at: impl FnOnce(&DemoSnapshot) -> T) -> T {
        at(&self.lock())
    }

    /// Waits until the state fulfils a condition.
    pub(super) async fn wait_until(&self, condition: impl Fn(&DemoSnapshot) -> bool) {
        loop {
            let changed = self.changed.notified();
            if condition(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Records a plugin run. Returns the number of runs of this kind, including this one.
    pub(super) fn record_plugin_run(&self, kind: CredentialKind) -> usize {
        self.update(|snapshot, _| {
            let history = snapshot.history(kind);
            history.runs += 1;
            history.runs
        })
    }

    /// Records the authentication of a request by the server.
    pub(super) fn record_authn(&self, record: &ResponseRecord<'_>) {
        self.update(|snapshot, now| match record.user {
            Ok(user) => {
                let (kind, id) = match &user.credential {
                    Some(CredentialId::Token(id)) => (CredentialKind::Token, id),
                    Some(CredentialId::Certificate(id)) => (CredentialKind::Certificate, id),
                    None => return,
                };
                let uses = &mut snapshot.history(kind).uses;
                // Requests in flight when a credential is replaced may arrive after the first with the new one.
                if uses.iter().rev().all(|credential_use| credential_use.id != *id) {
                    uses.push(CredentialUse { id: id.clone(), from: now });
                }
            }
            Err(AuthnFailure::RevokedToken) => snapshot.revoked.push(now),
            Err(_) => {}
        });
    }

    /// Records a completed request: its duration, and the error if it failed.
    pub(super) fn record_request(&self, took: Duration, outcome: Result<(), String>) {
        self.update(|snapshot, now| {
            match outcome {
                Ok(()) => snapshot.succeeded += 1,
                Err(reason) => {
                    snapshot.failed += 1;
                    snapshot.failure.get_or_insert(reason);
                }
            }
            snapshot.latency.add(took);
            let slice = slice(now);
            if snapshot.slowest.len() <= slice {
                snapshot.slowest.resize(slice + 1, Duration::ZERO);
            }
            snapshot.slowest[slice] = snapshot.slowest[slice].max(took);
        });
    }

    pub(super) fn watch_opened(&self) {
        self.update(|snapshot, now| snapshot.watch = Some(WatchHistory { from: now, events: Vec::new(), until: None }));
    }

    pub(super) fn watch_event(&self) {
        self.update(|snapshot, now| snapshot.watch.iter_mut().for_each(|watch| watch.events.push(now)));
    }

    pub(super) fn watch_closed(&self) {
        self.update(|snapshot, now| snapshot.watch.iter_mut().for_each(|watch| watch.until = Some(now)));
    }

    /// Records the result of a check.
    pub(super) fn complete_check(&self, what: &str, passed: bool, details: impl Into<String>) {
        self.update(|snapshot, _| {
            if let Some(check) = snapshot.checks.iter_mut().find(|check| check.what == what) {
                check.state = if passed { CheckState::Passed } else { CheckState::Failed };
                check.details = details.into();
            }
        });
    }

    fn update<T>(&self, change: impl FnOnce(&mut DemoSnapshot, Duration) -> T) -> T {
        let result = change(&mut self.lock(), self.began.elapsed());
        self.changed.notify_waiters();
        result
    }

    fn lock(&self) -> MutexGuard<'_, DemoSnapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DemoSnapshot {
    fn history(&mut self, kind: CredentialKind) -> &mut CredentialHistory {
        match kind {
            CredentialKind::Token => &mut self.tokens,
            CredentialKind::Certificate => &mut self.certificates,
        }
    }

    /// Whether all checks passed, or `None` while checks are pending.
    pub(super) fn verdict(&self) -> Option<bool> {
        let open = self.checks.iter().any(|check| check.state == CheckState::Pending);
        (!open).then(|| self.checks.iter().all(|check| check.state == CheckState::Passed))
    }
}

/// The index of the slice that a time belongs to.
pub(super) fn slice(moment: Duration) -> usize {
    usize::try_from(moment.as_millis() / SLICE.as_millis()).unwrap_or(usize::MAX)
}
