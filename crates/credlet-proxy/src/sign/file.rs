use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use credlet_api::Secret;
use credlet_client::conn::{Credential, Crypto, Identity};
use credlet_core::Clock;

use super::{SignError, Signer, Signing};

/// How long a pair that was read is taken to be unchanged. Then it is read again, whatever the files' times say: one that is
/// written twice within a tick of the system's clock has the same.
const LOOK: Duration = Duration::from_secs(1);

/// A client certificate and its key in files, which somebody may replace at any time: cert-manager, a script, a mounted
/// secret. A new pair is taken when both files fit each other; until then the old one serves.
pub struct File {
    certificate: PathBuf,
    key: PathBuf,
    crypto: Crypto,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Option<Credential>,
    looked: Option<Duration>,
    serial: u64,
}

impl File {
    /// Nothing is read yet.
    pub fn new(certificate: PathBuf, key: PathBuf, crypto: Crypto, clock: Arc<dyn Clock>) -> Self {
        Self { certificate, key, crypto, clock, state: Mutex::default() }
    }

    fn current(&self, look_now: bool) -> Result<Credential, SignError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        if let (Some(held), Some(looked)) = (&state.held, state.looked)
            && !look_now
            && now.saturating_sub(looked) < LOOK
        {
            return Ok(held.clone());
        }
        state.looked = Some(now);
        let read = self.read(&mut state);
        match (read, &state.held) {
            (Ok(()), Some(held)) => Ok(held.clone()),
            (Err(error), Some(held)) => {
                tracing::warn!(%error, "the client certificate cannot be read again; the last one is used");
                Ok(held.clone())
            }
            (Err(error), None) => Err(error),
            (Ok(()), None) => Err(wrong("is not there".into())),
        }
    }

    fn read(&self, state: &mut State) -> Result<(), SignError> {
        let certificate = std::fs::read(&self.certificate).map_err(|error| unreadable(&self.certificate, &error))?;
        let key = std::fs::read_to_string(&self.key).map_err(|error| unreadable(&self.key, &error))?;
        let identity = Identity::from_pem(&certificate, &Secret::new(key), &self.crypto)
            .map_err(|error| SignError::Misconfigured { message: error.to_string() })?;
        if state.held.as_ref().and_then(|held| held.identity.as_ref()) != Some(&identity) {
            state.serial += 1;
            state.held = Some(Credential::new(state.serial, None, Some(identity)));
            tracing::info!(serial = state.serial, "the client certificate is read");
        }
        Ok(())
    }
}

impl Signer for File {
    fn credential(&self) -> Signing<'_, Credential> {
        Box::pin(async { self.current(false) })
    }

    fn refused(&self, serial: u64) -> Signing<'_, bool> {
        Box::pin(async move { Ok(self.current(true)?.serial != serial) })
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("certificate", &self.certificate).field("key", &self.key).finish()
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> SignError {
    // An error of the system, not of a parser: it quotes nothing.
    wrong(format!("in {} cannot be read: {error}", credlet_api::visible(&path.to_string_lossy())))
}

fn wrong(what: String) -> SignError {
    SignError::Misconfigured { message: format!("the client certificate {what}") }
}

#[cfg(test)]
mod tests {
    use credlet_core::ManualClock;
    use credlet_testkit::ca::Ca;
    use credlet_testkit::logs::Watch;

    use super::*;

    #[tokio::test]
    async fn a_replaced_pair_is_taken_when_it_fits_and_the_old_one_serves_until_then() {
        let watch = Watch::new();
        let (ca, dir) = (Ca::new(), tempfile::tempdir().unwrap());
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        watch.adopt("key", one.key_pem());
        watch.adopt("key", two.key_pem());
        let (certificate, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        let clock = ManualClock::new("2030-01-01T00:00:00Z".parse().unwrap());
        let signer = File::new(certificate.clone(), key.clone(), Crypto::aws_lc_rs(), Arc::new(clock.clone()));

        let missing = signer.credential().await.unwrap_err();
        watch.error(&missing);
        assert!(missing.to_string().contains("tls.crt"), "{missing}");

        std::fs::write(&certificate, one.cert_pem()).unwrap();
        std::fs::write(&key, one.key_pem()).unwrap();
        let first = signer.credential().await.unwrap();
        assert_eq!(first.serial, 1);

        // Half of the new pair: not yet.
        std::fs::write(&certificate, two.cert_pem()).unwrap();
        clock.advance(LOOK);
        assert_eq!(signer.credential().await.unwrap().serial, 1);
        assert!(!signer.refused(1).await.unwrap());
        std::fs::write(&key, two.key_pem()).unwrap();
        assert!(signer.refused(1).await.unwrap(), "there is another one now");
        let second = signer.credential().await.unwrap();
        assert_eq!(second.serial, 2);
        assert_ne!(first.identity, second.identity);

        // The same pair written again is no new one.
        std::fs::write(&key, format!("{}\n", two.key_pem())).unwrap();
        clock.advance(LOOK);
        assert_eq!(signer.credential().await.unwrap().serial, 2);
        watch.text(format!("{signer:?}"));
    }
}
