//! Cache directories that a user or a kubeconfig chooses.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::time::Duration;

use credlet_platform::dirs::CACHE_IN_HOME;
use credlet_testkit::plugin::TestPlugin;

use crate::sandbox::{CacheSandbox, V1, keys_in};

const HOUR: Duration = Duration::from_secs(3600);

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Writes old files of a user, also with the name of an entry.
fn old_files(dir: &Path) -> BTreeMap<String, String> {
    fs::create_dir_all(dir).unwrap();
    let names = ["thesis.tex".to_owned(), "id_ed25519".to_owned(), ".hidden.4711".to_owned(), "a".repeat(64)];
    for name in &names {
        fs::write(dir.join(name), name).unwrap();
        let file = File::options().write(true).open(dir.join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }
    names.map(|name| (name.clone(), name)).into()
}

fn files_in(dir: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let content = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), content(&path))).collect()
}

#[test]
fn chosen_directory_keeps_files_and_mode() {
    for chosen_mode in [0o755, 0o700, 0o777] {
        for by_variable in [false, true] {
            let home = CacheSandbox::new();
            let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
            let docs = home.path("docs");
            let before = old_files(&docs);
            fs::set_permissions(&docs, Permissions::from_mode(chosen_mode)).unwrap();
            let options = ["--cache-dir", docs.to_str().unwrap()];
            for _ in 0..2 {
                let mut call = home.cache(if by_variable { &[] } else { &options }, &plugin);
                if by_variable {
                    call.env("CREDLET_CACHE_DIR", &docs);
                }
                assert_eq!(home.run(call).token(), "a-token");
            }
            assert_eq!((files_in(&docs), mode(&docs)), (before, chosen_mode));
            // The subdirectory is used as a cache.
            assert_eq!((plugin.runs(), keys_in(&docs.join("credlet-exec")).len()), (1, 1));
            assert_eq!(mode(&docs.join("credlet-exec")), 0o700);
        }
    }
}

#[test]
fn sweep_removes_only_old_entries() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    home.token(&[], &plugin);
    fs::remove_file(home.entry()).unwrap();
    let mut before = old_files(&home.entries());
    home.token(&[], &plugin);
    // An old file with the name of an entry is removed.
    before.remove(&"a".repeat(64));
    let after = files_in(&home.entries());
    assert!(before.keys().all(|name| after.contains_key(name)), "{after:?}");
    assert!(!after.contains_key(&"a".repeat(64)));
    assert_eq!(home.run(home.credlet(&["cache", "rm", "--all"])).stdout, "1 removed\n");
    let after = files_in(&home.entries());
    assert!(before.keys().all(|name| after.contains_key(name)), "{after:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
fn cache_dir_of_kubeconfig_cannot_harm_files() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    plugin.install(home.dir(), "acme");
    let link = home.path("credlet-cache-acme");
    symlink(env!("CARGO_BIN_EXE_credlet"), &link).unwrap();
    let ssh = home.path(".ssh");
    let before = old_files(&ssh);
    fs::set_permissions(&ssh, Permissions::from_mode(0o700)).unwrap();
    for variable in ["CREDLET_CACHE_DIR", "XDG_CACHE_HOME", "HOME"] {
        let mut call = std::process::Command::new(&link);
        call.env_clear().env("HOME", home.dir()).env("PATH", home.dir()).env("KUBERNETES_EXEC_INFO", V1);
        call.env("CREDLET_TEST_ACCOUNT_HOME", home.dir()).env(variable, &ssh);
        assert_eq!(home.run(call).token(), "a-token");
        assert_eq!((files_in(&ssh), mode(&ssh)), (before.clone(), 0o700), "{variable}");
    }
}

#[test]
fn unsafe_directory_is_rejected_and_unchanged() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    fs::create_dir_all(home.entries()).unwrap();
    for open in [0o755, 0o770, 0o701] {
        fs::set_permissions(home.entries(), Permissions::from_mode(open)).unwrap();
        let ran = home.run(home.cache(&[], &plugin));
        assert_eq!(ran.token(), "a-token");
        assert!(ran.stderr.contains("cannot use the cache") && ran.stderr.contains("chmod 700"), "{}", ran.stderr);
        assert_eq!((mode(&home.entries()), fs::read_dir(home.entries()).unwrap().count()), (open, 0));
    }
    fs::remove_dir(home.entries()).unwrap();
    let elsewhere = home.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, home.entries()).unwrap();
    let ran = home.run(home.cache(&[], &plugin));
    assert_eq!(ran.token(), "a-token");
    assert!(ran.stderr.contains("cannot use the cache"), "{}", ran.stderr);
    assert_eq!((mode(&elsewhere), fs::read_dir(&elsewhere).unwrap().count()), (0o700, 0));
}

#[test]
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn root_creates_no_files_in_other_homes() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give directories away");
        return;
    }
    let (home, root) = (CacheSandbox::new(), CacheSandbox::new());
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    let run = || {
        let mut call = home.cache(&[], &plugin);
        call.env("CREDLET_TEST_ACCOUNT_HOME", root.dir());
        let ran = home.run(call);
        assert_eq!(ran.token(), "a-token");
        assert!(ran.stderr.contains("belongs to user 12345"), "{}", ran.stderr);
    };
    chown(home.dir(), Some(12345), Some(12345)).unwrap();
    run();
    assert_eq!(fs::read_dir(home.dir()).unwrap().count(), 0);
    // Neither through a symbolic link of that user, to an empty or to an existing cache directory.
    let target = root.path("target");
    fs::create_dir(&target).unwrap();
    let link = home.path(CACHE_IN_HOME);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(&target, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(12345), Some(12345)).unwrap();
    run();
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    fs::create_dir_all(target.join("credlet/exec")).unwrap();
    fs::set_permissions(target.join("credlet/exec"), Permissions::from_mode(0o700)).unwrap();
    run();
    assert_eq!(fs::read_dir(target.join("credlet/exec")).unwrap().count(), 0);
}

#[test]
fn forged_entry_is_not_served() {
    let home = CacheSandbox::new();
    let plugin =
        TestPlugin::answering("of-the-attacker").expiring_in(HOUR).on_the_next_run().answers("good").expiring_in(HOUR);
    // An attacker makes the same call on another machine, and sends the directory with a kubeconfig.
    let sent = home.path("sent");
    let options = ["--cache-dir", sent.to_str().unwrap()];
    assert_eq!(home.token(&options, &plugin), "of-the-attacker");
    assert_eq!(home.token(&options, &plugin), "of-the-attacker");
    fs::remove_dir_all(home.path(CACHE_IN_HOME)).unwrap();
    assert_eq!(keys_in(&sent.join("credlet-exec")).len(), 1);
    assert_eq!(home.token(&options, &plugin), "good");
}
