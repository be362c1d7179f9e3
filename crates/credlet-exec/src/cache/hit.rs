use jiff::Timestamp;
use zeroize::Zeroizing;

use super::rejection::{self, CallVerdict};
use super::{CacheEntry, CacheInvocation, CacheMode, failure};
use crate::store::Store;

/// If the plugin returned the rejected credential again, the entry is served for this long before the next run.
const SAME_CREDENTIAL_SECONDS: i64 = 30;

/// A response from the cache.
pub struct CacheHit {
    /// The bytes to print.
    pub response: Zeroizing<Vec<u8>>,
    /// Whether to start this program again, with the same arguments and [`CacheMode::BACKGROUND_REFRESH`], to refresh the
    /// entry.
    pub refresh_due: bool,
}

impl std::fmt::Debug for CacheHit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheHit").field("refresh_due", &self.refresh_due).finish_non_exhaustive()
    }
}

impl CacheInvocation {
    /// Returns the stored response if it is still valid, without taking a lock: files are replaced atomically.
    ///
    /// `None`: continue with [`miss`](Self::miss).
    pub fn hit(&mut self, now: Timestamp) -> Option<CacheHit> {
        if self.is_uncached()
            || self.wants_refresh()
            || self.mode == CacheMode::BackgroundRefresh
            || self.state.is_err()
        {
            return None;
        }
        // A missing or unsafe directory is reported by the call that stores something.
        let store = self.dir.as_deref().and_then(|dir| Store::open_for_lookup(dir).ok()?)?;
        let entry = self.load_entry(&store).filter(|entry| entry.is_fresh_for(&self.options, now))?;
        let due = now >= entry.lifetime.refresh_at;
        let response = self.serve_entry(&store, entry, now)?;
        let interactive = self.request.as_ref().is_some_and(|request| request.spec.interactive);
        let unattended = !interactive && !failure::opens_browser(&self.options);
        let refresh_due =
            due && unattended && rejection::try_claim_refresh(&store, self.key.as_str(), now).unwrap_or(false);
        Some(CacheHit { response, refresh_due })
    }

    /// Records the call and returns the response of a fresh entry. `None`: the server rejected the credential, or the call
    /// could not be recorded.
    pub(super) fn serve_entry(
        &mut self,
        store: &Store,
        entry: CacheEntry,
        now: Timestamp,
    ) -> Option<Zeroizing<Vec<u8>>> {
        let is_same_credential = entry.rejected.as_ref() == Some(&entry.digest)
            && now.duration_since(entry.lifetime.created).as_secs() < SAME_CREDENTIAL_SECONDS;
        let verdict =
            rejection::record_call(store, self.key.as_str(), self.caller, self.arrived_at, entry.lifetime.created, now)
                .ok()?;
        if verdict == CallVerdict::Rejected && !is_same_credential {
            self.rejected = Some((entry.lifetime.created, entry.digest));
            return None;
        }
        Some(entry.body)
    }
}
