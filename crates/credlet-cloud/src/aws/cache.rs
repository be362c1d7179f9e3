//! Disk cache of temporary credentials.

use std::future::Future;
use std::ops::ControlFlow;
use std::time::Duration;

use credlet_exec::{Clock, Env};
use jiff::Timestamp;

use super::process::ProcessOutput;
use super::{AwsCredentials, AwsError};
pub(super) use credlet_exec::store::cache_key as key;
use credlet_exec::store::{TokenCache, read_or_fetch};

/// Credentials with less remaining lifetime are fetched anew.
const MARGIN: Duration = Duration::from_secs(300);

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

    /// Returns the credentials of this key, or runs `fetch` and stores its result. Concurrent processes wait for the one that
    /// fetches, which may be prompting for an MFA code.
    pub(super) async fn credentials(
        &self,
        key: &str,
        clock: &dyn Clock,
        fetch: impl Future<Output = Result<AwsCredentials, AwsError>> + Send,
    ) -> Result<AwsCredentials, AwsError> {
        let Self(entries) = self;
        let lock = async { Ok(entries.lock(key, clock, LOCK_TIMEOUT).await) };
        let fetch_and_write = |()| async {
            let credentials = fetch.await?;
            if credentials.expires.is_some() {
                entries.write_and_sweep(key, &ProcessOutput::encode(&credentials));
            }
            Ok(credentials)
        };
        let look = || self.read(key, clock.now()).map_or(ControlFlow::Continue(()), ControlFlow::Break);
        read_or_fetch(|_| look(), lock, fetch_and_write).await
    }

    /// Returns the entry of this key unless it expires soon.
    fn read(&self, key: &str, now: Timestamp) -> Option<AwsCredentials> {
        let credentials = ProcessOutput::decode(&self.0.read(key)?).ok()?;
        let last = credentials.expires?.checked_sub(MARGIN).ok()?;
        (now < last).then_some(credentials)
    }
}
