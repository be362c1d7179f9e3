use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zeroize::Zeroizing;

use super::*;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("a/b")).unwrap();
    (dir, store)
}

#[test]
fn what_was_written_is_read_by_its_owner_alone() {
    let (_dir, store) = store();
    assert_eq!(store.read("x").unwrap(), None);
    store.write("x", b"one").unwrap();
    store.write("x", b"two").unwrap();
    assert_eq!(&**store.read("x").unwrap().unwrap(), b"two");
    assert_eq!(store.names().unwrap(), ["x"]);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(store.path()), mode(&store.path().join("x"))), (0o700, 0o600));
    assert!(store.remove("x").unwrap() && !store.remove("x").unwrap());
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let (_dir, store) = store();
    for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a b", "é"] {
        assert_eq!(store.read(name), Err(StoreError::Name), "{name}");
        assert_eq!(store.write(name, b""), Err(StoreError::Name), "{name}");
    }
}

#[test]
fn files_that_others_could_have_made_are_not_read() {
    let (dir, store) = store();
    store.write("x", b"one").unwrap();
    fs::set_permissions(store.path().join("x"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(store.read("x"), Err(StoreError::NotPrivate { mode: 0o644 }));
    symlink("x", store.path().join("link")).unwrap();
    assert_eq!(store.read("link"), Err(StoreError::NotPlain));
    fs::create_dir(store.path().join("dir")).unwrap();
    assert_eq!(store.read("dir"), Err(StoreError::NotPlain));
    symlink(store.path(), dir.path().join("store")).unwrap();
    assert_eq!(Store::open(&dir.path().join("store")).unwrap_err(), StoreError::NotPlain);
}

#[test]
fn one_has_the_lock_and_the_next_is_woken() {
    let (_dir, store) = store();
    let lock = store.lock("x", Duration::from_secs(60), |_| {}).unwrap();
    assert!(store.try_lock("x").unwrap().is_none());
    assert!(store.try_lock("y").unwrap().is_some());
    std::thread::scope(|scope| {
        let (told, hear) = std::sync::mpsc::channel();
        let (path, told) = (store.path().to_owned(), told);
        let waiter = scope.spawn(move || {
            let store = Store::open(&path).unwrap();
            drop(store.lock("x", Duration::from_secs(60), |holder| told.send(holder).unwrap()).unwrap());
        });
        assert_eq!(hear.recv().unwrap(), Some(std::process::id()));
        drop(lock);
        waiter.join().unwrap();
    });
    assert!(store.try_lock("x").unwrap().is_some());
}

#[test]
fn the_wait_for_a_lock_has_an_end() {
    let (_dir, store) = store();
    let _lock = store.lock("x", Duration::from_secs(60), |_| {}).unwrap();
    let waited = store.lock("x", Duration::from_millis(20), |_| {});
    assert_eq!(waited.unwrap_err(), StoreError::Locked { holder: Some(std::process::id()) });
}

#[derive(Debug, Default)]
struct Pocket(Mutex<Option<[u8; 32]>>);

impl Keyring for Pocket {
    fn key(&self) -> Result<Option<Zeroizing<[u8; 32]>>, KeyringError> {
        Ok(self.0.lock().unwrap().map(Zeroizing::new))
    }

    fn keep(&self, key: &[u8; 32]) -> Result<(), KeyringError> {
        *self.0.lock().unwrap() = Some(*key);
        Ok(())
    }
}

#[test]
fn what_is_sealed_is_opened_with_the_same_key_in_the_same_place_only() {
    let (_dir, store) = store();
    let pocket = Arc::new(Pocket::default());
    let sealed = Sealer::new(pocket.clone(), &store).unwrap().seal(b"here", b"hunter2").unwrap();
    assert!(!sealed.windows(7).any(|window| window == b"hunter2"));
    let again = Sealer::new(pocket, &store).unwrap();
    assert_eq!(&**again.open(b"here", &sealed).unwrap(), b"hunter2");
    assert_ne!(again.seal(b"here", b"hunter2").unwrap(), sealed);
    assert_eq!(again.open(b"there", &sealed), Err(SealError::Broken));
    assert_eq!(again.open(b"here", &sealed[..5]), Err(SealError::Broken));
    let other = Sealer::new(Arc::new(Pocket::default()), &store).unwrap();
    assert_eq!(other.open(b"here", &sealed), Err(SealError::Broken));
    assert_eq!(format!("{other:?}"), "Sealer([redacted])");
}

#[derive(Debug)]
struct Silent;

impl Keyring for Silent {
    fn key(&self) -> Result<Option<Zeroizing<[u8; 32]>>, KeyringError> {
        loop {
            std::thread::park();
        }
    }

    fn keep(&self, _: &[u8; 32]) -> Result<(), KeyringError> {
        Ok(())
    }
}

#[test]
fn a_keyring_that_never_answers_does_not_hold_us_up() {
    let (_dir, store) = store();
    assert_eq!(Sealer::new(Arc::new(Silent), &store).unwrap_err(), SealError::Keyring(KeyringError::Silent));
}
