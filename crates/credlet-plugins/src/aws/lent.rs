//! Keeping what was lent, so that the next command need not ask again.

use std::path::PathBuf;
use std::time::Duration;

use aws_lc_rs::digest;
use credlet_core::{Clock, Env};
use jiff::Timestamp;

use super::process::Answer;
use super::{Credentials, sigv4};
use crate::store::{Lock, Store, StoreError};

/// What is left of a credential's life when it is fetched anew.
const MARGIN: Duration = Duration::from_secs(300);

/// How long somebody may take to type a code.
const PATIENCE: Duration = Duration::from_secs(300);

/// A directory with a file for each. Whatever is wrong with it, it is no worse than having none.
#[derive(Debug)]
pub(super) struct Lent {
    dir: PathBuf,
}

impl Lent {
    /// The person's own: `$XDG_CACHE_HOME/credlet/aws`, or `~/.cache/credlet/aws`. `None`: there is no such place.
    pub(super) fn of(env: &dyn Env) -> Option<Self> {
        let configured = env.var("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let base = configured.or_else(|| Some(env.home_dir().filter(|home| home.is_absolute())?.join(".cache")))?;
        Some(Self { dir: base.join("credlet/aws") })
    }

    /// What is kept under this name and is still good for a while.
    pub(super) fn read(&self, key: &str, now: Timestamp) -> Option<Credentials> {
        let kept = Store::open(&self.dir).and_then(|store| store.read(key)).unwrap_or_else(unused)?;
        let credentials = Answer::decode(&kept).ok()?;
        let last = credentials.expires?.checked_sub(MARGIN).ok()?;
        (now < last).then_some(credentials)
    }

    /// Keeps credentials that end by themselves.
    pub(super) fn write(&self, key: &str, credentials: &Credentials) {
        if credentials.expires.is_some() {
            let kept = Store::open(&self.dir).and_then(|store| store.write(key, &Answer::encode(credentials)));
            kept.map(Some).unwrap_or_else(unused);
        }
    }

    /// Waits until nobody else is fetching the same. `None`: there is no way to know, or somebody takes too long.
    pub(super) async fn turn(&self, key: &str, clock: &dyn Clock) -> Option<Lock> {
        const STEP: Duration = Duration::from_millis(50);
        let store = Store::open(&self.dir).map(Some).unwrap_or_else(unused)?;
        let start = clock.monotonic();
        while clock.monotonic().saturating_sub(start) < PATIENCE {
            match store.try_lock(key) {
                Ok(Some(turn)) => return Some(turn),
                Ok(None) => clock.sleep(STEP).await,
                Err(error) => return unused(error),
            }
        }
        None
    }
}

fn unused<T>(error: StoreError) -> Option<T> {
    tracing::debug!(%error, "lent credentials are not kept");
    None
}

/// A name for these parts and no others, from which none of them can be found out.
pub(super) fn key<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part.as_bytes());
    }
    sigv4::hex(context.finish().as_ref())
}
