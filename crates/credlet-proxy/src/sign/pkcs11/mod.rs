//! TLS client keys in a security module (smart card, YubiKey, TPM, HSM), through PKCS#11.
//!
//! A [`Pkcs11Uri`] names the token, the key and optionally a file with the PIN. [`module::find`] checks that the PKCS#11 library may be
//! loaded. [`Pkcs11Signer::open`] starts the only thread that calls the library, logs in once and finds the key and its certificate.
//! Each TLS handshake requests a signature from that thread.
//!
//! The library is loaded and initialized only in the process that signs, because PKCS#11 modules do not survive a fork. A PIN is tried
//! once: tokens lock themselves after a few wrong PINs, so a rejected PIN is never retried without the user.

mod chain;
mod der;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod lock;
mod mechanism;
pub mod module;
mod pin;
mod pss;
mod token;
mod uri;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::sign::{SignError, SignFuture, Signer};
use credlet_api::Secret;
use credlet_exec::{Clock as _, SystemClock};
use credlet_http::{HttpCredential, TlsIdentity};
use rustls::sign::CertifiedKey;

pub use self::error::Pkcs11Error;
use self::key::TokenKey;
pub use self::pin::PinSource;
use self::token::KeyDetails;
pub use self::uri::{Pkcs11Uri, Pkcs11UriError};
use self::worker::TokenWorkerHandle;

/// Time after which a waiting request reports that the token may need a touch.
const TOUCH_HINT_AFTER: Duration = Duration::from_secs(3);

/// Options of [`Pkcs11Signer::open`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pkcs11Options {
    /// The token and the key.
    pub uri: Pkcs11Uri,
    /// The PKCS#11 library, as returned by [`module::find`].
    pub module: PathBuf,
    /// The certificate with its intermediates, as PEM. `None`: read from the token.
    pub chain: Option<Vec<u8>>,
    /// `None`: the token needs no PIN, has a keypad, or [`Signer::unlock`] supplies the PIN later.
    pub pin: Option<Secret>,
    /// The user's directory for lock files of tokens, with which a proxy waits for another one that is closing its session. `None`: no
    /// waiting.
    pub lock_dir: Option<PathBuf>,
    /// The key that was found first. A reopened token must have the same key; another token does not receive the PIN, which it would
    /// count as a wrong one.
    known: Option<KeyDetails>,
}

impl Pkcs11Options {
    /// Returns options with the certificate on the token and without a PIN.
    pub fn new(uri: Pkcs11Uri, module: PathBuf) -> Self {
        Self { uri, module, chain: None, pin: None, lock_dir: None, known: None }
    }
}

/// Authenticates requests with a client certificate whose key is in a security module.
pub struct Pkcs11Signer {
    worker: Arc<TokenWorkerHandle>,
    /// Set when the token has been opened.
    identity: OnceLock<TlsIdentity>,
}

impl Pkcs11Signer {
    /// Loads the library, logs in and finds the key. Blocks until the token has responded.
    ///
    /// A missing PIN is not an error: [`unlock_prompt`](Signer::unlock_prompt) then returns a prompt for it.
    ///
    /// # Errors
    /// If the library cannot be loaded, or the token, the key or the certificate is missing or unusable.
    pub fn open(options: Pkcs11Options) -> Result<Self, Pkcs11Error> {
        let (worker, found) = TokenWorkerHandle::open(options)?;
        let signer = Self { worker: Arc::new(worker), identity: OnceLock::new() };
        match found {
            Err(Pkcs11Error::NoPin { .. }) => {}
            found => signer.set_identity(found?)?,
        }
        Ok(signer)
    }

    fn set_identity(&self, found: KeyDetails) -> Result<(), Pkcs11Error> {
        let key = TokenKey::new(self.worker.clone(), found.kind, &found.mechanisms)?;
        let certified = CertifiedKey::new(found.chain, Arc::new(key));
        // A concurrent call has set the same value: the worker rejects another token or certificate.
        let _ = self.identity.set(TlsIdentity::from_certified_key(Arc::new(certified)));
        Ok(())
    }

    /// Opens the token with this PIN, or with the last accepted one.
    async fn find(&self, pin: Option<Secret>) -> Result<(), SignError> {
        let worker = self.worker.clone();
        let found = tokio::task::spawn_blocking(move || worker.find(pin)).await;
        let found =
            found.map_err(|_| SignError::Unavailable { message: "the PKCS#11 worker thread has exited".to_owned() })?;
        Ok(self.set_identity(found?)?)
    }
}

impl Signer for Pkcs11Signer {
    /// Returns the certificate, which never changes. After the token was lost, the first request reopens it, so that the request
    /// reports the reason and not a failed handshake.
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async move {
            let identity = match self.identity.get() {
                Some(identity) if !self.worker.is_lost() => identity,
                _ => {
                    self.find(None).await?;
                    let unknown = || SignError::Unavailable { message: "the token is not open yet".to_owned() };
                    self.identity.get().ok_or_else(unknown)?
                }
            };
            Ok(HttpCredential::new(1, None, Some(identity.clone())))
        })
    }

    /// Completes when the token has been busy for `TOUCH_HINT_AFTER`: it probably waits for a touch, which PKCS#11 libraries do not
    /// report.
    fn user_action_required(&self) -> Option<Pin<Box<dyn Future<Output = SignError> + Send + '_>>> {
        Some(Box::pin(async {
            let clock = SystemClock::new();
            while self.worker.busy_for() < TOUCH_HINT_AFTER {
                clock.sleep(Duration::from_millis(100)).await;
            }
            Pkcs11Error::Slow { seconds: TOUCH_HINT_AFTER.as_secs() }.into()
        }))
    }

    fn key_losses(&self) -> u64 {
        self.worker.key_losses()
    }

    fn signature_count(&self) -> u64 {
        self.worker.signature_count()
    }

    fn unlock_prompt(&self) -> Option<String> {
        self.worker.locked().map(|token| format!("PIN of the token `{token}`: "))
    }

    fn unlock(&self, answer: Secret) -> SignFuture<'_, ()> {
        Box::pin(self.find(Some(answer)))
    }

    fn close(&self) {
        self.worker.close();
    }
}

impl fmt::Debug for Pkcs11Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pkcs11Signer").field("identity", &self.identity.get()).finish_non_exhaustive()
    }
}
