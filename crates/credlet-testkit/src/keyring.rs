//! A keyring in memory, in place of the kernel's.

use std::sync::Mutex;

use credlet_platform::store::{Keyring, KeyringError};
use zeroize::Zeroizing;

/// A keyring in memory, which can be made unavailable.
#[derive(Debug, Default)]
pub struct MemoryKeyring {
    /// The stored key.
    pub key: Mutex<Option<[u8; 32]>>,
    /// Whether every read fails with "operation not permitted".
    pub blocked: bool,
}

impl Keyring for MemoryKeyring {
    fn key(&self) -> Result<Option<Zeroizing<[u8; 32]>>, KeyringError> {
        if self.blocked {
            return Err(KeyringError::Unavailable("EPERM".to_owned()));
        }
        Ok(self.key.lock().expect("not poisoned").map(Zeroizing::new))
    }

    fn store_key(&self, key: &[u8; 32]) -> Result<(), KeyringError> {
        *self.key.lock().expect("not poisoned") = Some(*key);
        Ok(())
    }
}
