use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

use super::{KEY_LEN, Keyring, KeyringError, Store, StoreError, with_keyring_timeout};

/// Length of the nonce, which precedes the ciphertext.
const NONCE_LEN: usize = 12;

/// Lock under which one process creates the key.
const KEY_LOCK: &str = "keyring";
const KEY_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Encrypts stored entries with AES-256-GCM and a key in the system keyring.
///
/// The keyring holds only this key, which is written once. Storing the entries themselves there would be slow, is limited in
/// size on some systems, and loses data when several processes write.
pub struct Sealer(RandomizedNonceKey);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer([redacted])")
    }
}

impl Sealer {
    /// Uses the key in `keyring`. Returns `None` before the first key is stored, so that no sealed entry can exist.
    ///
    /// # Errors
    /// Fails if the keyring is unavailable, locked or does not respond.
    pub fn existing(keyring: Arc<dyn Keyring>) -> Result<Option<Self>, SealError> {
        with_keyring_timeout(move || keyring.key())?.map(|key| Self::from_key(&key)).transpose()
    }

    /// Uses the key in `keyring`; creates it under a lock in `store` if it is missing. Blocks for a few seconds at most.
    ///
    /// # Errors
    /// Fails if the keyring is unavailable, locked or does not respond.
    pub fn new(keyring: Arc<dyn Keyring>, store: &Store) -> Result<Self, SealError> {
        let look = Arc::clone(&keyring);
        if let Some(key) = with_keyring_timeout(move || look.key())? {
            return Self::from_key(&key);
        }
        let _lock = store.lock(KEY_LOCK, KEY_LOCK_TIMEOUT, |_| {})?;
        let made = with_keyring_timeout(move || {
            // Another process may have created it before we got the lock.
            if let Some(key) = keyring.key()? {
                return Ok(key);
            }
            let mut key = Zeroizing::new([0; KEY_LEN]);
            rand::fill(&mut *key)
                .map_err(|_| KeyringError::Unavailable("failed to generate random bytes".to_owned()))?;
            keyring.store_key(&key)?;
            Ok(key)
        })?;
        Self::from_key(&made)
    }

    fn from_key(key: &[u8; KEY_LEN]) -> Result<Self, SealError> {
        RandomizedNonceKey::new(&AES_256_GCM, key).map(Self).map_err(|_| SealError::Crypto)
    }

    /// Encrypts `bytes`. The ciphertext is bound to `location` (additional authenticated data), so it cannot be moved.
    ///
    /// # Errors
    /// Fails if no random nonce can be generated.
    pub fn seal(&self, location: &[u8], bytes: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut inside = Zeroizing::new(bytes.to_vec());
        let sealed = self.0.seal_in_place_separate_tag(Aad::from(location), &mut inside);
        let (nonce, tag) = sealed.map_err(|_| SealError::Crypto)?;
        let nonce: &[u8; NONCE_LEN] = nonce.as_ref();
        Ok([&nonce[..], &inside, tag.as_ref()].concat())
    }

    /// Decrypts what [`seal`](Self::seal) returned for the same `location`.
    ///
    /// # Errors
    /// Fails if key or location differ, or if the data was modified.
    pub fn open(&self, location: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (nonce, inside) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(SealError::Invalid)?;
        let mut inside = Zeroizing::new(inside.to_vec());
        let opened = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(location), &mut inside);
        let length = opened.map_err(|_| SealError::Invalid)?.len();
        inside.truncate(length);
        Ok(inside)
    }
}

/// An entry cannot be encrypted or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The keyring failed.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The lock for creating the key failed.
    #[error("failed to lock the keyring key: {0}")]
    Store(#[from] StoreError),
    /// Encrypted with another key or for another location, or modified.
    #[error("failed to decrypt: wrong key or modified data")]
    Invalid,
    /// The cipher failed.
    #[error("encryption failed")]
    Crypto,
}
