//! The system keyring, which holds the key of encrypted entries.
//!
//! Only the Linux kernel's keyring is supported. A Secret Service would need D-Bus (some forty crates), 23 ms per look-up and
//! possibly a dialogue. The kernel's keyring is lost on reboot, which is acceptable for a cache.

use std::fmt;
use std::sync::mpsc;
use std::time::Duration;

use zeroize::Zeroizing;

/// Timeout of a keyring operation.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Length of the key in bytes.
pub const KEY_LEN: usize = 32;

/// Stores one key, shared by all processes of the user.
pub trait Keyring: fmt::Debug + Send + Sync + 'static {
    /// Returns the key, or `None` if none is stored.
    ///
    /// # Errors
    /// Fails if the keyring is unavailable or locked.
    fn key(&self) -> Result<Option<Zeroizing<[u8; KEY_LEN]>>, KeyringError>;

    /// Stores the key.
    ///
    /// # Errors
    /// Fails if the keyring is unavailable or locked.
    fn store_key(&self, key: &[u8; KEY_LEN]) -> Result<(), KeyringError>;
}

/// The keyring cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// No supported keyring on this system.
    #[error("unsupported: this system has no kernel keyring")]
    Unsupported,
    /// Access failed, as in most containers.
    #[error("cannot access the system keyring: {0}")]
    Unavailable(String),
    /// No response in time.
    #[error("the system keyring timed out")]
    TimedOut,
    /// The entry of our name is not a key.
    #[error("invalid key in the system keyring")]
    InvalidKey,
}

/// Runs a keyring operation on a new thread, with a timeout. A blocked thread is left behind.
///
/// # Errors
/// Fails if the operation does or times out.
pub fn with_keyring_timeout<T: Send + 'static>(
    operation: impl FnOnce() -> Result<T, KeyringError> + Send + 'static,
) -> Result<T, KeyringError> {
    let (sender, receiver) = mpsc::channel();
    let spawned = std::thread::Builder::new().spawn(move || {
        let _ = sender.send(operation());
    });
    spawned.map_err(|error| KeyringError::Unavailable(error.kind().to_string()))?;
    receiver.recv_timeout(TIMEOUT).unwrap_or(Err(KeyringError::TimedOut))
}

/// The user keyring of the Linux kernel. Lost on reboot.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelKeyring;

#[cfg(target_os = "linux")]
impl Keyring for KernelKeyring {
    fn key(&self) -> Result<Option<Zeroizing<[u8; KEY_LEN]>>, KeyringError> {
        use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};
        let found = KeyRing::from_special_id(KeyRingIdentifier::User, true).and_then(|ring| ring.search(KEY_NAME));
        let found = match found {
            Err(KeyError::KeyDoesNotExist | KeyError::KeyExpired | KeyError::KeyRevoked) => return Ok(None),
            found => found.map_err(unavailable)?,
        };
        // One byte more, to detect a longer entry.
        let mut bytes = Zeroizing::new([0; KEY_LEN + 1]);
        match found.read(&mut *bytes).map_err(unavailable)? {
            KEY_LEN => {
                let mut key = Zeroizing::new([0; KEY_LEN]);
                key.copy_from_slice(&bytes[..KEY_LEN]);
                Ok(Some(key))
            }
            _ => Err(KeyringError::InvalidKey),
        }
    }

    fn store_key(&self, key: &[u8; KEY_LEN]) -> Result<(), KeyringError> {
        use linux_keyutils::{KeyPermissionsBuilder, KeyRing, KeyRingIdentifier, Permission};
        let ring = KeyRing::from_special_id(KeyRingIdentifier::User, true).map_err(unavailable)?;
        let entry = ring.add_key(KEY_NAME, key).map_err(unavailable)?;
        // Sessions without a link to the user keyring, as under cron, do not possess its keys and need user permissions.
        let user = Permission::VIEW | Permission::READ | Permission::SEARCH;
        let permissions = KeyPermissionsBuilder::builder().posessor(Permission::ALL).user(user).build();
        entry.set_perms(permissions).map_err(unavailable)
    }
}

#[cfg(target_os = "linux")]
const KEY_NAME: &str = "credlet:store";

#[cfg(target_os = "linux")]
fn unavailable(error: linux_keyutils::KeyError) -> KeyringError {
    KeyringError::Unavailable(error.to_string())
}

#[cfg(not(target_os = "linux"))]
impl Keyring for KernelKeyring {
    fn key(&self) -> Result<Option<Zeroizing<[u8; KEY_LEN]>>, KeyringError> {
        Err(KeyringError::Unsupported)
    }

    fn store_key(&self, _: &[u8; KEY_LEN]) -> Result<(), KeyringError> {
        Err(KeyringError::Unsupported)
    }
}
