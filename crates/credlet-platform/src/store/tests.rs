use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use super::*;
use crate::SystemClock;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("a/b")).unwrap();
    (dir, store)
}

#[test]
fn files_are_private_and_replaced() {
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
fn rejects_names_outside_the_directory() {
    let (_dir, store) = store();
    for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a b", "é"] {
        assert_eq!(store.read(name), Err(StoreError::InvalidName), "{name}");
        assert_eq!(store.write(name, b""), Err(StoreError::InvalidName), "{name}");
    }
}

#[test]
fn rejects_files_of_other_users() {
    let (dir, store) = store();
    store.write("x", b"one").unwrap();
    fs::set_permissions(store.path().join("x"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(store.read("x"), Err(StoreError::NotPrivate { mode: 0o644 }));
    symlink("x", store.path().join("link")).unwrap();
    assert_eq!(store.read("link"), Err(StoreError::NotRegular));
    fs::create_dir(store.path().join("dir")).unwrap();
    assert_eq!(store.read("dir"), Err(StoreError::NotRegular));
    symlink(store.path(), dir.path().join("store")).unwrap();
    assert_eq!(Store::open(&dir.path().join("store")).unwrap_err(), StoreError::NotRegular);
}

#[test]
fn rejects_open_directory_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o755, 0o770, 0o701] {
        fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        assert_eq!(Store::open(dir.path()).unwrap_err(), StoreError::NotPrivate { mode });
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o7777, mode);
    }
    assert!(Store::open_existing(&dir.path().join("none")).unwrap().is_none());
}

#[test]
fn sweep_removes_own_names_only() {
    let (_dir, store) = store();
    let key = "0123456789abcdef".repeat(4);
    let own = [
        key.clone(),
        format!("{key}.lock"),
        format!("{key}.calls"),
        format!("{key}.failed"),
        format!("{key}.inputs"),
        format!(".{key}.4711"),
        format!(".{key}.failed.4711"),
        "no-keyring".to_owned(),
    ];
    let foreign = [
        "thesis.tex".to_owned(),
        "id_ed25519".to_owned(),
        "keyring.lock".to_owned(),
        key.to_uppercase(),
        format!("{key}0"),
        format!("{key}.tar"),
        format!("{key}.lock.bak"),
        format!(".{key}"),
        format!(".{key}.swp"),
        ".thesis.4711".to_owned(),
        "z".repeat(64),
    ];
    for name in own.iter().chain(&foreign) {
        fs::write(store.path().join(name), "").unwrap();
    }
    fs::create_dir(store.path().join("f".repeat(64))).unwrap();
    symlink("thesis.tex", store.path().join("e".repeat(64))).unwrap();
    let later = jiff::Timestamp::from_second(9_000_000_000).unwrap();
    store.sweep(later).unwrap();
    let exists = |name: &String| store.path().join(name).exists();
    assert_eq!(own.iter().find(|name| exists(name)), None);
    assert_eq!(foreign.iter().find(|name| !exists(name)), None);
    assert!(exists(&"f".repeat(64)) && exists(&"e".repeat(64)));
}

#[test]
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn root_rejects_links_of_other_users() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (home, ours) = (dir.path().join("home"), dir.path().join("ours"));
    fs::create_dir(&home).unwrap();
    drop(Store::open(&ours.join("credlet/exec")).unwrap());
    symlink(&ours, home.join(".cache")).unwrap();
    std::os::unix::fs::lchown(home.join(".cache"), Some(12345), None).unwrap();
    let through = home.join(".cache/credlet/exec");
    let refused = StoreError::WrongOwner { owner: 12345, user: 0 };
    assert_eq!(Store::open(&through).unwrap_err(), refused);
    assert_eq!(Store::open_existing(&through).unwrap_err(), refused);
    // The empty home directory of another user.
    std::os::unix::fs::chown(&home, Some(12345), None).unwrap();
    assert_eq!(Store::open(&home.join("x/credlet/exec")).unwrap_err(), refused);
    assert!(!home.join("x").exists());
}

#[test]
fn lock_release_wakes_the_waiter() {
    let (_dir, store) = store();
    let lock = store.lock("x", Duration::from_secs(60), |_| {}).unwrap();
    assert!(store.try_lock("x").unwrap().is_none());
    assert!(store.try_lock("y").unwrap().is_some());
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let path = store.path().to_owned();
        let waiter = scope.spawn(move || {
            let store = Store::open(&path).unwrap();
            drop(store.lock("x", Duration::from_secs(60), |holder| sender.send(holder).unwrap()).unwrap());
        });
        assert_eq!(receiver.recv().unwrap(), Some(std::process::id()));
        drop(lock);
        waiter.join().unwrap();
    });
    assert!(store.try_lock("x").unwrap().is_some());
}

#[test]
fn waiting_for_a_lock_times_out() {
    let (_dir, store) = store();
    let _lock = store.lock("x", Duration::from_secs(60), |_| {}).unwrap();
    let waited = store.lock("x", Duration::from_millis(20), |_| {});
    assert_eq!(waited.unwrap_err(), StoreError::Locked { holder: Some(std::process::id()) });
}

#[tokio::test]
async fn async_lock_waits_and_times_out() {
    let (_dir, store) = store();
    let clock = SystemClock::new();
    let lock = store.lock_async("x", &clock, Duration::from_secs(60), |_| {}).await.unwrap();
    let waited = store.lock_async("x", &clock, Duration::from_millis(20), |_| {}).await;
    assert_eq!(waited.unwrap_err(), StoreError::Locked { holder: Some(std::process::id()) });
    // Releases the lock when the waiting call reports its holder.
    let release = |holder| {
        assert_eq!(holder, Some(std::process::id()));
        drop(lock);
    };
    drop(store.lock_async("x", &clock, Duration::from_secs(60), release).await.unwrap());
    assert!(store.try_lock("x").unwrap().is_some());
}

#[test]
fn locked_file_is_replaced_over_leftover() {
    use std::os::unix::ffi::OsStringExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(std::ffi::OsString::from_vec(b"config\xff".to_vec()));
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let mut leftover = std::ffi::OsString::from_vec(b".config\xff.".to_vec());
    leftover.push(std::process::id().to_string());
    fs::write(dir.path().join(leftover), "x").unwrap();
    replace_locked_file(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
