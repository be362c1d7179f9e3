//! Disk cache of temporary credentials.

use std::time::Duration;

use credlet_exec::{Clock, Env};
use jiff::Timestamp;

use super::AwsCredentials;
use super::process::ProcessOutput;
pub(super) use credlet_exec::store::cache_key as key;
use credlet_exec::store::{StoreLock, TokenCache};

/// Credentials with less remaining lifetime are fetched anew.
const MARGIN: Duration = Duration::from_secs(300);

/// Older files are removed: keys change with the credentials, and no role session lasts longer.
const MAX_AGE: Duration = Duration::from_secs(48 * 60 * 60);

/// How long to wait for a process that fetches the same credentials; its user may be typing an MFA code.
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);

/// Temporary credentials on disk, one file per key, in the format of `credential_process`.
#[derive(Debug)]
pub(super) struct AwsCredentialCache(TokenCache);

impl AwsCredentialCache {
    /// Uses the user's cache directory. `None`: the user has none.
    pub(super) fn new(env: &dyn Env) -> Option<Self> {
        TokenCache::in_cache_dir(env, "aws").map(Self)
    }

    /// Returns the entry of this key unless it expires soon.
    pub(super) fn read(&self, key: &str, now: Timestamp) -> Option<AwsCredentials> {
        let credentials = ProcessOutput::decode(&self.0.read(key)?).ok()?;
        let last = credentials.expires?.checked_sub(MARGIN).ok()?;
        (now < last).then_some(credentials)
    }

    /// Stores credentials that have an expiry.
    pub(super) fn write(&self, key: &str, credentials: &AwsCredentials) {
        if credentials.expires.is_some() {
            self.0.write_and_sweep(key, &ProcessOutput::encode(credentials), MAX_AGE);
        }
    }

    /// Waits until no other process fetches the entry of this key. `None`: locking failed or timed out.
    pub(super) async fn lock(&self, key: &str, clock: &dyn Clock) -> Option<StoreLock> {
        self.0.lock(key, clock, LOCK_TIMEOUT).await
    }
}
