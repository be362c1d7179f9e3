//! Keeping access tokens between two runs.

use std::future::Future;
use std::time::Duration;

use credlet_api::Secret;
use credlet_core::World;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{AccessToken, Error};
use crate::cache::calls::{self, Caller, Verdict};
use crate::store::Shelf;

/// How long another run may take to fetch the same.
const PATIENCE: Duration = Duration::from_secs(60);

/// No token lives longer.
const OLDEST: Duration = Duration::from_secs(48 * 60 * 60);

/// Tokens that were fetched, each under a name that is made of all that decides what it is: whoever has another key or
/// account has another name.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    shelf: Option<Shelf>,
    world: World,
}

#[derive(Deserialize)]
struct Record {
    token: Secret,
    issued: i64,
    expires: i64,
}

impl Kept {
    /// In the person's cache, in a directory of this name.
    pub(crate) fn new(world: &World, name: &str) -> Self {
        Self { shelf: Shelf::of(&*world.env, name), world: world.clone() }
    }

    /// The one that is kept, or else a new one; who comes second waits for the first. One that the API server seems to
    /// have refused is fetched anew.
    pub(crate) async fn token(
        &self,
        key: &str,
        fetch: impl Future<Output = Result<AccessToken, Error>>,
    ) -> Result<AccessToken, Error> {
        let Some(shelf) = &self.shelf else { return fetch.await };
        let kept = self.fresh(shelf, key);
        if let Some(record) = &kept
            && self.is_liked(shelf, key, record)
        {
            return Ok(record.token());
        }
        let _turn = shelf.turn(key, &*self.world.clock, PATIENCE).await;
        if let Some(record) = self.fresh(shelf, key)
            && kept.is_none_or(|kept| kept.token != record.token)
        {
            return Ok(record.token());
        }
        let asked_at = self.world.clock.now();
        let token = fetch.await?;
        if let Some(expires) = token.expires {
            let record =
                Record { token: token.token.clone(), issued: asked_at.as_second(), expires: expires.as_second() };
            shelf.write_and_sweep(key, record.encode().as_bytes(), OLDEST);
            // The one who asked has had it once.
            self.is_liked(shelf, key, &record);
        }
        Ok(token)
    }

    fn fresh(&self, shelf: &Shelf, key: &str) -> Option<Record> {
        let record: Record = serde_json::from_slice(&shelf.read(key)?).ok()?;
        record.is_fresh(self.world.clock.now()).then_some(record)
    }

    fn is_liked(&self, shelf: &Shelf, key: &str, record: &Record) -> bool {
        let Some(store) = shelf.store() else { return false };
        let created = Timestamp::from_second(record.issued).unwrap_or_default();
        let verdict =
            calls::count(&store, key, Caller::parent(), calls::kernel_time(), created, self.world.clock.now());
        verdict.is_ok_and(|verdict| verdict == Verdict::Serve)
    }
}

impl Record {
    fn token(&self) -> AccessToken {
        AccessToken { token: self.token.clone(), expires: Timestamp::from_second(self.expires).ok() }
    }

    /// Some of its life is kept back, for the request that it is for must still arrive: a tenth, at least 10 s and at
    /// most 60 s.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let now = now.as_second();
        // Issued in the future: the clock was set back, and nobody knows by how much.
        let sane = !self.token.is_empty() && self.issued <= now + 60;
        sane && now < self.expires - ((self.expires - self.issued) / 10).clamp(10, 60)
    }

    fn encode(&self) -> Zeroizing<String> {
        #[derive(Serialize)]
        struct Wire<'a> {
            token: &'a str,
            issued: i64,
            expires: i64,
        }
        let wire = Wire { token: self.token.expose(), issued: self.issued, expires: self.expires };
        // Texts and numbers always become JSON.
        Zeroizing::new(serde_json::to_string(&wire).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_fetched_anew_a_little_before_its_end_and_after_a_jump_of_the_clock() {
        let record = |expires| Record { token: "t".into(), issued: 1000, expires };
        let fresh_until = |expires| {
            let fresh = |now: &i64| record(expires).is_fresh(Timestamp::from_second(*now).unwrap());
            (0..9000).rev().find(fresh)
        };
        assert_eq!(fresh_until(1000 + 3600), Some(1000 + 3600 - 61));
        assert_eq!(fresh_until(1000 + 300), Some(1000 + 300 - 31));
        assert_eq!(fresh_until(1000 + 5), Some(1000 + 5 - 11));
        let set_back = Timestamp::from_second(900).unwrap();
        assert!(!record(4600).is_fresh(set_back));
        assert!(!Record { token: "".into(), ..record(4600) }.is_fresh(Timestamp::from_second(1000).unwrap()));
    }
}
