use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::keyring::{KEY, within_limit};
use super::{Keyring, KeyringError, Store, StoreError};

/// The length of the nonce in front of what is sealed.
const NONCE: usize = 12;

/// Under this lock one process makes the key that all will use.
const LOCK: &str = "keyring";
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// Encrypts what goes to the disk, with a key that is not there: AES-256-GCM, and the key in the system's keyring.
///
/// Only that one key is kept there, and it is written once: entries of their own are slow, limited in size on some
/// systems, and get lost when several processes write.
pub struct Sealer(RandomizedNonceKey);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer([redacted])")
    }
}

impl Sealer {
    /// Of this name is [said once](Store::is_first) that there is no keyring.
    pub(crate) const MISSING: &str = "no-keyring";

    /// With the key that `keyring` has; the first one makes it, under a lock in `store`. Never waits for long.
    ///
    /// # Errors
    /// When the keyring is missing, blocked or does not answer.
    pub fn new(keyring: Arc<dyn Keyring>, store: &Store) -> Result<Self, SealError> {
        let look = Arc::clone(&keyring);
        if let Some(key) = within_limit(move || look.key())? {
            return Self::with(&key);
        }
        let _lock = store.lock(LOCK, LOCK_LIMIT, |_| {})?;
        let made = within_limit(move || {
            // Somebody was faster.
            if let Some(key) = keyring.key()? {
                return Ok(key);
            }
            let mut key = Zeroizing::new([0; KEY]);
            rand::fill(&mut *key).map_err(|_| KeyringError::Unavailable("no randomness".to_owned()))?;
            keyring.keep(&key)?;
            Ok(key)
        })?;
        Self::with(&made)
    }

    fn with(key: &[u8; KEY]) -> Result<Self, SealError> {
        RandomizedNonceKey::new(&AES_256_GCM, key).map(Self).map_err(|_| SealError::Crypto)
    }

    /// `bytes`, for nobody else to read, and for nobody to move to another `place`.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn seal(&self, place: &[u8], bytes: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut inside = Zeroizing::new(bytes.to_vec());
        let sealed = self.0.seal_in_place_separate_tag(Aad::from(place), &mut inside);
        let (nonce, tag) = sealed.map_err(|_| SealError::Crypto)?;
        let nonce: &[u8; NONCE] = nonce.as_ref();
        Ok([&nonce[..], &inside, tag.as_ref()].concat())
    }

    /// What was sealed for this `place`.
    ///
    /// # Errors
    /// When it was not, or not with this key.
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (nonce, inside) = sealed.split_first_chunk::<NONCE>().ok_or(SealError::Broken)?;
        let mut inside = Zeroizing::new(inside.to_vec());
        let opened = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(place), &mut inside);
        let length = opened.map_err(|_| SealError::Broken)?.len();
        inside.truncate(length);
        Ok(inside)
    }
}

/// Why something cannot be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// There is no key to be had.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The first one could not make the key.
    #[error("the lock for the key: {0}")]
    Store(#[from] StoreError),
    /// It was sealed with another key, for another place, or has been changed.
    #[error("it was sealed with another key, or changed since")]
    Broken,
    /// The cipher failed.
    #[error("the cipher failed")]
    Crypto,
}
