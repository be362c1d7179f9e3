//! A place for things that can be had again: whatever is wrong with it, it is no worse than having none.

use std::path::PathBuf;
use std::time::Duration;

use aws_lc_rs::digest;
use credlet_core::{Clock, Env};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::{Lock, Store, StoreError};

/// A directory in the person's cache with a file for each thing.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    dir: PathBuf,
}

impl Shelf {
    /// `$XDG_CACHE_HOME/credlet/NAME`, or `~/.cache/credlet/NAME`. `None`: there is no such place.
    pub(crate) fn of(env: &dyn Env, name: &str) -> Option<Self> {
        let configured = env.var("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let base = configured.or_else(|| Some(env.home_dir().filter(|home| home.is_absolute())?.join(".cache")))?;
        Some(Self { dir: base.join("credlet").join(name) })
    }

    /// The directory itself.
    pub(crate) fn store(&self) -> Option<Store> {
        Store::open(&self.dir).map(Some).unwrap_or_else(unused)
    }

    /// What lies there under this name.
    pub(crate) fn read(&self, key: &str) -> Option<Zeroizing<Vec<u8>>> {
        Store::open(&self.dir).and_then(|store| store.read(key)).unwrap_or_else(unused)
    }

    /// Puts it there.
    pub(crate) fn write(&self, key: &str, bytes: &[u8]) {
        Store::open(&self.dir).and_then(|store| store.write(key, bytes)).map(Some).unwrap_or_else(unused);
    }

    /// Puts it there, and removes what was put there so much earlier: names are made of what they are for, and that
    /// changes. Earlier by the clock of the disk, which need not be ours.
    pub(crate) fn write_and_sweep(&self, key: &str, bytes: &[u8], age: Duration) {
        self.write(key, bytes);
        let written = std::fs::metadata(self.dir.join(key)).and_then(|about| about.modified()).ok();
        let oldest = written.and_then(|at| Timestamp::try_from(at.checked_sub(age)?).ok());
        if let (Some(store), Some(oldest)) = (self.store(), oldest) {
            store.sweep(oldest).map(Some).unwrap_or_else(unused);
        }
    }

    /// Waits until nobody else is fetching the same. `None`: there is no way to know, or somebody takes too long.
    pub(crate) async fn turn(&self, key: &str, clock: &dyn Clock, patience: Duration) -> Option<Lock> {
        const STEP: Duration = Duration::from_millis(50);
        let store = self.store()?;
        let start = clock.monotonic();
        while clock.monotonic().saturating_sub(start) < patience {
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
    tracing::debug!(%error, "credentials are not kept");
    None
}

/// A name for these parts and no others, from which none of them can be found out.
pub(crate) fn key<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part.as_bytes());
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
