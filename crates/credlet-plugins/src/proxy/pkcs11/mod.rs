//! A TLS key that never leaves its security module: a smart card, a YubiKey, a TPM, an HSM, by way of PKCS#11.
//!
//! **The path:** a [`Uri`] names token, key and perhaps the PIN's file → [`module::find`] decides which library may be
//! loaded → [`Pkcs11Signer::open`] starts the one thread that talks to it, logs in once, finds the key and its
//! certificate → each TLS handshake asks that thread for a signature.
//!
//! **Three names to know:** [`Uri`], [`Options`], [`Pkcs11Signer`].
//!
//! The library is loaded and `C_Initialize` called in the process that signs and in no other: modules do not survive a
//! fork. A PIN is tried once. Cards lock themselves after a few wrong ones, so whatever was wrong with it, the next try
//! is a person's.

mod chain;
mod der;
mod desk;
mod error;
mod key;
mod mechanism;
pub mod module;
mod pin;
mod pss;
mod token;
mod uri;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use credlet_api::Secret;
use credlet_client::conn::{Credential, Identity};
use credlet_core::{Clock as _, SystemClock};
use credlet_proxy::sign::{SignError, Signer, Signing};
use rustls::sign::CertifiedKey;

use self::desk::Desk;
pub use self::error::Pkcs11Error;
use self::key::TokenKey;
pub use self::pin::PinSource;
use self::token::Found;
pub use self::uri::{Uri, UriError};

/// After this long whoever waits for a token is told that it may have to be touched.
const TOUCH: Duration = Duration::from_secs(3);

/// What a key is opened with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Which token and key.
    pub uri: Uri,
    /// The library, as [`module::find`] allowed it.
    pub module: PathBuf,
    /// The certificate with its intermediates, as PEM. `None`: they are on the token.
    pub chain: Option<Vec<u8>>,
    /// `None`: the token needs none, has a keypad of its own, or somebody will be asked.
    pub pin: Option<Secret>,
    /// What was found before, and must be found again. Another token is not told the PIN: it would count as a wrong try.
    known: Option<Found>,
}

impl Options {
    /// With everything on the token, and no PIN.
    pub fn new(uri: Uri, module: PathBuf) -> Self {
        Self { uri, module, chain: None, pin: None, known: None }
    }
}

/// Authorizes requests by a client certificate whose key is in a security module.
pub struct Pkcs11Signer {
    desk: Arc<Desk>,
    /// Known once the token was open.
    identity: OnceLock<Identity>,
}

impl Pkcs11Signer {
    /// Loads the library, logs in and finds the key. It blocks: a token takes its time, and a person with a keypad more.
    ///
    /// A token that wants a PIN, when there is none, is no error: the signer [wants](Signer::wants) it then.
    ///
    /// # Errors
    /// Whoever must act first is named.
    pub fn open(options: Options) -> Result<Self, Pkcs11Error> {
        let (desk, found) = Desk::open(options)?;
        let signer = Self { desk: Arc::new(desk), identity: OnceLock::new() };
        match found {
            Err(Pkcs11Error::NoPin { .. }) => {}
            found => signer.know(found?)?,
        }
        Ok(signer)
    }

    fn know(&self, found: Found) -> Result<(), Pkcs11Error> {
        let key = TokenKey::new(self.desk.clone(), found.kind, &found.mechanisms)?;
        let certified = CertifiedKey::new(found.chain, Arc::new(key));
        // Whoever was first found the same: the desk sees to that.
        let _ = self.identity.set(Identity::from_certified_key(Arc::new(certified)));
        Ok(())
    }

    /// Has the token opened, with this PIN or with the one of before.
    async fn find(&self, pin: Option<Secret>) -> Result<(), SignError> {
        let desk = self.desk.clone();
        let found = tokio::task::spawn_blocking(move || desk.find(pin)).await;
        let found = found.map_err(|_| SignError::Unavailable { message: "the token's thread is gone".to_owned() })?;
        Ok(self.know(found?)?)
    }
}

impl Signer for Pkcs11Signer {
    /// The certificate, for ever the same. A token that was lost is looked for again with the first request afterwards:
    /// that one says what is the matter, in place of a handshake that fails.
    fn credential(&self) -> Signing<'_, Credential> {
        Box::pin(async move {
            let identity = match self.identity.get() {
                Some(identity) if !self.desk.is_lost() => identity,
                _ => {
                    self.find(None).await?;
                    let unknown = || SignError::Unavailable { message: "the token is not open".to_owned() };
                    self.identity.get().ok_or_else(unknown)?
                }
            };
            Ok(Credential::new(1, None, Some(identity.clone())))
        })
    }

    /// A token that takes its time waits for somebody: to touch it, as a rule. Its library does not say so.
    fn person(&self) -> Option<Pin<Box<dyn Future<Output = SignError> + Send + '_>>> {
        Some(Box::pin(async {
            let clock = SystemClock::new();
            while self.desk.busy_for() < TOUCH {
                clock.sleep(Duration::from_millis(100)).await;
            }
            Pkcs11Error::Slow { seconds: TOUCH.as_secs() }.into()
        }))
    }

    fn losses(&self) -> u64 {
        self.desk.losses()
    }

    fn signatures(&self) -> u64 {
        self.desk.signatures()
    }

    fn wants(&self) -> Option<String> {
        self.desk.locked().map(|token| format!("PIN of the token `{token}`: "))
    }

    fn unlock(&self, answer: Secret) -> Signing<'_, ()> {
        Box::pin(self.find(Some(answer)))
    }

    fn close(&self) {
        self.desk.close();
    }
}

impl fmt::Debug for Pkcs11Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pkcs11Signer").field("identity", &self.identity.get()).finish_non_exhaustive()
    }
}
