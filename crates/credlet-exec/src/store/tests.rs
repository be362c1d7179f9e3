use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zeroize::Zeroizing;

use super::*;
use crate::SystemClock;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("a/b")).unwrap();
    (dir, store)
}

#[derive(Debug, Default)]
struct MemoryKeyring(Mutex<Option<[u8; 32]>>);

impl Keyring for MemoryKeyring {
    fn key(&self) -> Result<Option<Zeroizing<[u8; 32]>>, KeyringError> {
        Ok(self.0.lock().unwrap().map(Zeroizing::new))
    }

    fn store_key(&self, key: &[u8; 32]) -> Result<(), KeyringError> {
        *self.0.lock().unwrap() = Some(*key);
        Ok(())
    }
}

#[test]
fn opens_only_with_same_key_and_location() {
    let (_dir, store) = store();
    let keyring = Arc::new(MemoryKeyring::default());
    let sealed = Sealer::new(keyring.clone(), &store).unwrap().seal(b"here", b"hunter2").unwrap();
    assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
    let again = Sealer::new(keyring, &store).unwrap();
    assert_eq!(&**again.open(b"here", &sealed).unwrap(), b"hunter2");
    assert_ne!(again.seal(b"here", b"hunter2").unwrap(), sealed);
    assert_eq!(again.open(b"there", &sealed), Err(SealError::Invalid));
    assert_eq!(again.open(b"here", &sealed[..5]), Err(SealError::Invalid));
    let other = Sealer::new(Arc::new(MemoryKeyring::default()), &store).unwrap();
    assert_eq!(other.open(b"here", &sealed), Err(SealError::Invalid));
    assert_eq!(format!("{other:?}"), "Sealer([redacted])");
}

#[derive(Debug)]
struct BlockedKeyring;

impl Keyring for BlockedKeyring {
    fn key(&self) -> Result<Option<Zeroizing<[u8; 32]>>, KeyringError> {
        loop {
            std::thread::park();
        }
    }

    fn store_key(&self, _: &[u8; 32]) -> Result<(), KeyringError> {
        Ok(())
    }
}

#[test]
fn blocked_keyring_times_out() {
    let (_dir, store) = store();
    assert_eq!(Sealer::new(Arc::new(BlockedKeyring), &store).unwrap_err(), SealError::Keyring(KeyringError::TimedOut));
}

#[tokio::test]
async fn concurrent_callers_fetch_once() {
    let (_dir, store) = store();
    let (clock, fetches) = (SystemClock::new(), AtomicUsize::new(0));
    let get = || {
        let look = || match store.read("token").unwrap() {
            Some(bytes) => ControlFlow::Break(bytes.to_vec()),
            None => ControlFlow::Continue(()),
        };
        let fetch = |()| async {
            tokio::task::yield_now().await;
            fetches.fetch_add(1, Ordering::Relaxed);
            store.write("token", b"hunter2")?;
            Ok(b"hunter2".to_vec())
        };
        read_or_fetch(move |_| look(), store.lock_async("token", &clock, Duration::from_secs(60), |_| {}), fetch)
    };
    let (a, b, c) = tokio::join!(get(), get(), get());
    for token in [a, b, c] {
        assert_eq!(token, Ok(b"hunter2".to_vec()));
    }
    assert_eq!(fetches.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn failed_fetch_releases_the_lock() {
    let (_dir, store) = store();
    let lock = async { store.try_lock("token").map(Option::unwrap) };
    let fetched =
        read_or_fetch(|_| ControlFlow::<(), _>::Continue(()), lock, |()| async { Err(StoreError::InvalidName) });
    assert_eq!(fetched.await, Err(StoreError::InvalidName));
    assert!(store.try_lock("token").unwrap().is_some());
}
