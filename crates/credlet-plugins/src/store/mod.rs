//! Where tokens lie between two runs: small files that nobody else can read, written whole or not at all, with a lock
//! for each.
//!
//! **The path:** [`Store::open`] makes the directory, or sees that it is ours alone → [`Store::read`] takes no lock and
//! trusts no file that another user could have touched → on a miss [`Store::lock`], **read again** (somebody else may
//! have been faster), and only then do the work and [`Store::write`].
//!
//! **Three names to know:** [`Store`], [`Lock`], [`Sealer`].
//!
//! ```
//! use std::time::Duration;
//!
//! use credlet_plugins::store::Store;
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
mod seal;
mod shelf;

pub use self::dir::{Store, replace_file};
pub use self::error::StoreError;
pub use self::keyring::{KernelKeyring, Keyring, KeyringError};
pub use self::lock::Lock;
pub use self::seal::{SealError, Sealer};
pub(crate) use self::shelf::{Shelf, key};

#[cfg(test)]
mod tests;
