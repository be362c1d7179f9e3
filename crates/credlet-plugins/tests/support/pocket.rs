use std::sync::Mutex;

use credlet_plugins::store::{Keyring, KeyringError};
use zeroize::Zeroizing;

/// A keyring in a pocket, or none at all.
#[derive(Debug, Default)]
pub(crate) struct Pocket {
    pub(crate) key: Mutex<Option<[u8; 32]>>,
    pub(crate) blocked: bool,
}

impl Keyring for Pocket {
    fn key(&self) -> Result<Option<Zeroizing<[u8; 32]>>, KeyringError> {
        if self.blocked {
            return Err(KeyringError::Unavailable("EPERM".to_owned()));
        }
        Ok(self.key.lock().unwrap().map(Zeroizing::new))
    }

    fn keep(&self, key: &[u8; 32]) -> Result<(), KeyringError> {
        *self.key.lock().unwrap() = Some(*key);
        Ok(())
    }
}
