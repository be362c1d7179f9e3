//! Private on-disk storage for tokens: small files of mode 0600 in a directory of mode 0700, replaced atomically, each with a
//! lock.
//!
//! [`Store::open`] creates the directory, or checks that only this user has access. [`Store::read`] takes no lock and rejects
//! files that another user could have written. On a miss, take [`Store::lock`] and **read again**, since another process may
//! have stored the value meanwhile; only then fetch it and call [`Store::write`]. [`Keyring`] holds the key of encrypted
//! entries.
//!
//! ```
//! use std::time::Duration;
//!
//! use credlet_platform::store::Store;
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("tokens");
//! let store = Store::open(&dir)?;
//! assert!(store.read("blue")?.is_none());
//! let lock = store.lock("blue", Duration::from_secs(60), |holder| eprintln!("waiting for {holder:?}"))?;
//! if store.read("blue")?.is_none() {
//!     store.write("blue", b"hunter2")?;
//! }
//! drop(lock);
//! assert_eq!(&**store.read("blue")?.unwrap(), b"hunter2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod dir;
mod error;
mod keyring;
mod lock;

pub use self::dir::{Store, entry_key, is_entry_key, replace_file, replace_locked_file};
pub use self::error::StoreError;
pub use self::keyring::{KEY_LEN, KernelKeyring, Keyring, KeyringError, with_keyring_timeout};
pub use self::lock::StoreLock;

#[cfg(test)]
mod tests;
