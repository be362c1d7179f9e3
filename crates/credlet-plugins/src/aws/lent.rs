//! Keeping what was lent, so that the next command need not ask again.

use std::time::Duration;

use credlet_core::{Clock, Env};
use jiff::Timestamp;

use super::Credentials;
use super::process::Answer;
pub(super) use crate::store::key;
use crate::store::{Lock, Shelf};

/// What is left of a credential's life when it is fetched anew.
const MARGIN: Duration = Duration::from_secs(300);

/// How long somebody may take to type a code.
const PATIENCE: Duration = Duration::from_secs(300);

/// Credentials that were lent, a file for each.
#[derive(Debug)]
pub(super) struct Lent(Shelf);

impl Lent {
    /// In the person's cache. `None`: there is no such place.
    pub(super) fn of(env: &dyn Env) -> Option<Self> {
        Shelf::of(env, "aws").map(Self)
    }

    /// What is kept under this name and is still good for a while.
    pub(super) fn read(&self, key: &str, now: Timestamp) -> Option<Credentials> {
        let credentials = Answer::decode(&self.0.read(key)?).ok()?;
        let last = credentials.expires?.checked_sub(MARGIN).ok()?;
        (now < last).then_some(credentials)
    }

    /// Keeps credentials that end by themselves.
    pub(super) fn write(&self, key: &str, credentials: &Credentials) {
        if credentials.expires.is_some() {
            self.0.write(key, &Answer::encode(credentials));
        }
    }

    /// Waits until nobody else is fetching the same. `None`: there is no way to know, or somebody takes too long.
    pub(super) async fn turn(&self, key: &str, clock: &dyn Clock) -> Option<Lock> {
        self.0.turn(key, clock, PATIENCE).await
    }
}
