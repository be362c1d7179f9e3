use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credlet_api::Secret;
use credlet_exec::Clock;
use credlet_http::{CryptoBackend, HttpCredential, TlsIdentity};
use credlet_platform::fs::{ReadError, read_bounded};

use super::{SignError, SignFuture, Signer};

/// Size limit of each file, in bytes.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Interval after which the files are read again. Modification times are not used: a file that is written twice within
/// one clock tick keeps its time.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Uses a client certificate and key from files that may be replaced at any time, by cert-manager or a mounted secret.
/// A new pair is used once certificate and key match; until then the old pair stays in use.
pub struct FileSigner {
    certificate: PathBuf,
    key: PathBuf,
    crypto: CryptoBackend,
    clock: Arc<dyn Clock>,
    state: Mutex<FileState>,
}

#[derive(Default)]
struct FileState {
    loaded: Option<HttpCredential>,
    checked_at: Option<Duration>,
    generation: u64,
}

impl FileSigner {
    /// Creates the signer without reading the files.
    pub fn new(certificate: PathBuf, key: PathBuf, crypto: CryptoBackend, clock: Arc<dyn Clock>) -> Self {
        Self { certificate, key, crypto, clock, state: Mutex::default() }
    }

    fn current(&self, force: bool) -> Result<HttpCredential, SignError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        if let (Some(loaded), Some(checked_at)) = (&state.loaded, state.checked_at)
            && !force
            && now.saturating_sub(checked_at) < RECHECK_INTERVAL
        {
            return Ok(loaded.clone());
        }
        state.checked_at = Some(now);
        let read = self.read(&mut state);
        match (read, &state.loaded) {
            (Ok(()), Some(loaded)) => Ok(loaded.clone()),
            (Err(error), Some(loaded)) => {
                tracing::warn!(%error, "failed to reload the client certificate; using the previous one");
                Ok(loaded.clone())
            }
            (Err(error), None) => Err(error),
            (Ok(()), None) => Err(misconfigured("was not loaded".into())),
        }
    }

    fn read(&self, state: &mut FileState) -> Result<(), SignError> {
        let read = |path: &Path| read_bounded(path, MAX_FILE_SIZE).map_err(|error| unreadable(path, error));
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let key = std::str::from_utf8(&key).map(Secret::new);
        let key = key.map_err(|_| misconfigured("has an invalid key: not PEM".into()))?;
        let identity = TlsIdentity::from_pem(&certificate, &key, &self.crypto)
            .map_err(|error| SignError::Misconfigured { message: error.to_string() })?;
        if state.loaded.as_ref().and_then(|loaded| loaded.identity.as_ref()) != Some(&identity) {
            state.generation += 1;
            state.loaded = Some(HttpCredential::new(state.generation, None, Some(identity)));
            tracing::info!(generation = state.generation, "loaded client certificate");
        }
        Ok(())
    }
}

impl Signer for FileSigner {
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async { self.current(false) })
    }

    fn on_unauthorized(&self, generation: u64) -> SignFuture<'_, bool> {
        Box::pin(async move { Ok(self.current(true)?.generation != generation) })
    }
}

impl fmt::Debug for FileSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSigner").field("certificate", &self.certificate).field("key", &self.key).finish()
    }
}

fn unreadable(path: &Path, error: ReadError) -> SignError {
    // The error comes from the operating system and quotes no content.
    misconfigured(format!("cannot be read: {}: {error}", credlet_api::escape_control_chars(&path.to_string_lossy())))
}

fn misconfigured(what: String) -> SignError {
    SignError::Misconfigured { message: format!("the client certificate {what}") }
}

#[cfg(test)]
mod tests {
    use credlet_exec::ManualClock;
    use credlet_testkit::ca::TestCa;
    use credlet_testkit::logs::LeakCheck;

    use super::*;

    #[tokio::test]
    async fn replaced_pair_is_used_once_it_matches() {
        let watch = LeakCheck::new();
        let (ca, dir) = (TestCa::new(), tempfile::tempdir().unwrap());
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        watch.adopt("key", one.key_pem());
        watch.adopt("key", two.key_pem());
        let (certificate, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        let clock = ManualClock::new("2030-01-01T00:00:00Z".parse().unwrap());
        let signer =
            FileSigner::new(certificate.clone(), key.clone(), CryptoBackend::aws_lc_rs(), Arc::new(clock.clone()));

        let missing = signer.credential().await.unwrap_err();
        watch.error(&missing);
        assert!(missing.to_string().contains("tls.crt"), "{missing}");

        std::fs::write(&certificate, one.cert_pem()).unwrap();
        std::fs::write(&key, one.key_pem()).unwrap();
        let first = signer.credential().await.unwrap();
        assert_eq!(first.generation, 1);

        // Only half of the new pair is written.
        std::fs::write(&certificate, two.cert_pem()).unwrap();
        clock.advance(RECHECK_INTERVAL);
        assert_eq!(signer.credential().await.unwrap().generation, 1);
        assert!(!signer.on_unauthorized(1).await.unwrap());
        std::fs::write(&key, two.key_pem()).unwrap();
        assert!(signer.on_unauthorized(1).await.unwrap(), "there is another one now");
        let second = signer.credential().await.unwrap();
        assert_eq!(second.generation, 2);
        assert_ne!(first.identity, second.identity);

        // Writing the same pair again does not change the generation.
        std::fs::write(&key, format!("{}\n", two.key_pem())).unwrap();
        clock.advance(RECHECK_INTERVAL);
        assert_eq!(signer.credential().await.unwrap().generation, 2);
        watch.text(format!("{signer:?}"));
    }

    #[tokio::test]
    async fn pipes_and_devices_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        credlet_testkit::make_fifo(&pipe);
        let clock = Arc::new(ManualClock::new("2030-01-01T00:00:00Z".parse().unwrap()));
        for path in [pipe, "/dev/zero".into()] {
            let signer = FileSigner::new(path.clone(), path, CryptoBackend::aws_lc_rs(), clock.clone());
            let error = signer.credential().await.unwrap_err().to_string();
            assert!(error.ends_with("is not a regular file"), "{error}");
        }
    }
}
