//! The operating system's keeper of secrets, asked for one key.
//!
//! Why the kernel's keyring and not a Secret Service: a service needs D-Bus, which is some forty crates more, 23 ms for
//! one look-up, and a dialogue that may never be answered. What the kernel loses at a reboot is a cache.

use std::fmt;
use std::sync::mpsc;
use std::time::Duration;

use zeroize::Zeroizing;

/// No keyring that works takes longer.
const LIMIT: Duration = Duration::from_secs(2);

/// The length of the key.
pub(super) const KEY: usize = 32;

/// A place for one key, which is the same for all processes of this user.
pub trait Keyring: fmt::Debug + Send + Sync + 'static {
    /// The key. `None`: there is none yet.
    ///
    /// # Errors
    /// When the keyring is not there, or blocked.
    fn key(&self) -> Result<Option<Zeroizing<[u8; KEY]>>, KeyringError>;

    /// Keeps this one from now on.
    ///
    /// # Errors
    /// When the keyring is not there, or blocked.
    fn keep(&self, key: &[u8; KEY]) -> Result<(), KeyringError>;
}

/// Why a keyring is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// There is none on this system.
    #[error("this system has no keyring that is supported")]
    Unsupported,
    /// It says no, as in most containers.
    #[error("the system's keyring is not available ({0})")]
    Unavailable(String),
    /// It says nothing.
    #[error("the system's keyring does not answer")]
    Silent,
    /// What it has under our name is not ours.
    #[error("the system's keyring holds something else under our name")]
    NotAKey,
}

/// Asks a keyring on a thread of its own, which is left behind if it gets no answer.
pub(super) fn within_limit<T: Send + 'static>(
    ask: impl FnOnce() -> Result<T, KeyringError> + Send + 'static,
) -> Result<T, KeyringError> {
    let (give, take) = mpsc::channel();
    let asked = std::thread::Builder::new().spawn(move || {
        let _ = give.send(ask());
    });
    asked.map_err(|error| KeyringError::Unavailable(error.kind().to_string()))?;
    take.recv_timeout(LIMIT).unwrap_or(Err(KeyringError::Silent))
}

/// The user keyring of the Linux kernel. It is gone after a reboot.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelKeyring;

#[cfg(target_os = "linux")]
impl Keyring for KernelKeyring {
    fn key(&self) -> Result<Option<Zeroizing<[u8; KEY]>>, KeyringError> {
        use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};
        let found = KeyRing::from_special_id(KeyRingIdentifier::User, true).and_then(|ring| ring.search(NAME));
        let found = match found {
            Err(KeyError::KeyDoesNotExist | KeyError::KeyExpired | KeyError::KeyRevoked) => return Ok(None),
            found => found.map_err(unavailable)?,
        };
        // One byte more: a longer one is somebody else's.
        let mut bytes = Zeroizing::new([0; KEY + 1]);
        match found.read(&mut *bytes).map_err(unavailable)? {
            KEY => {
                let mut key = Zeroizing::new([0; KEY]);
                key.copy_from_slice(&bytes[..KEY]);
                Ok(Some(key))
            }
            _ => Err(KeyringError::NotAKey),
        }
    }

    fn keep(&self, key: &[u8; KEY]) -> Result<(), KeyringError> {
        use linux_keyutils::{KeyPermissionsBuilder, KeyRing, KeyRingIdentifier, Permission};
        let ring = KeyRing::from_special_id(KeyRingIdentifier::User, true).map_err(unavailable)?;
        let kept = ring.add_key(NAME, key).map_err(unavailable)?;
        // Sessions that are not linked to the user's keyring, as under cron, do not possess what is in it.
        let ours = Permission::VIEW | Permission::READ | Permission::SEARCH;
        let permissions = KeyPermissionsBuilder::builder().posessor(Permission::ALL).user(ours).build();
        kept.set_perms(permissions).map_err(unavailable)
    }
}

#[cfg(target_os = "linux")]
const NAME: &str = "credlet:store";

#[cfg(target_os = "linux")]
fn unavailable(error: linux_keyutils::KeyError) -> KeyringError {
    KeyringError::Unavailable(error.to_string())
}

#[cfg(not(target_os = "linux"))]
impl Keyring for KernelKeyring {
    fn key(&self) -> Result<Option<Zeroizing<[u8; KEY]>>, KeyringError> {
        Err(KeyringError::Unsupported)
    }

    fn keep(&self, _: &[u8; KEY]) -> Result<(), KeyringError> {
        Err(KeyringError::Unsupported)
    }
}
