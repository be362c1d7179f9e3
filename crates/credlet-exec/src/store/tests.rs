use std::sync::{Arc, Mutex};

use zeroize::Zeroizing;

use super::*;

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
