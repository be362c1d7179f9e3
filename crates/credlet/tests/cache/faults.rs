//! Unusable entries and directories: the plugin is run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use credlet_platform::dirs::CACHE_IN_HOME;
use credlet_testkit::plugin::TestPlugin;

use crate::sandbox::{CacheSandbox, V1};

const HOUR: Duration = Duration::from_secs(3600);

/// Changes a line of an entry and its checksum.
pub(crate) fn rewrite(entry: &Path, name: &str, change: impl Fn(&str) -> String) {
    use aws_lc_rs::digest::{SHA256, digest};
    let text = fs::read_to_string(entry).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let line = rest.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    let rest = rest.replacen(line, &format!("{name} {}", change(&line[name.len() + 1..])), 1);
    let sum = credlet_api::hex(digest(&SHA256, rest.as_bytes()));
    let magic = first.rsplit_once(' ').unwrap().0;
    fs::write(entry, format!("{magic} {sum}\n{rest}")).unwrap();
}

/// The token of the second call after `spoil` has changed the entry of the first: `first` if it was served.
fn second_call(spoil: impl FnOnce(&CacheSandbox)) -> String {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("first").expiring_in(HOUR).on_the_next_run().answers("second").expiring_in(HOUR);
    assert_eq!(home.token(&[], &plugin), "first");
    spoil(&home);
    let token = home.token(&[], &plugin);
    if token == "second" {
        // The entry has been replaced.
        assert_eq!(home.token(&[], &plugin), "second");
        assert_eq!(plugin.runs(), 2);
    }
    token
}

#[test]
fn untouched_entry_is_served() {
    assert_eq!(second_call(|_| {}), "first");
}

#[test]
fn entry_readable_by_others_is_ignored() {
    for mode in [0o644, 0o640, 0o666, 0o602] {
        let token = second_call(|home| fs::set_permissions(home.entry(), Permissions::from_mode(mode)).unwrap());
        assert_eq!(token, "second", "{mode:o}");
    }
}

#[test]
fn symlinked_entry_is_ignored() {
    let token = second_call(|home| {
        let entry = home.entry();
        let elsewhere = home.path("elsewhere");
        fs::rename(&entry, &elsewhere).unwrap();
        symlink(&elsewhere, &entry).unwrap();
    });
    assert_eq!(token, "second");
}

#[test]
fn entry_of_another_user_is_ignored() {
    // Only root can change the owner of files.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let token = second_call(|home| std::os::unix::fs::chown(home.entry(), Some(12345), None).unwrap());
    assert_eq!(token, "second");
}

#[test]
fn damaged_entry_is_ignored() {
    assert_eq!(second_call(|home| fs::write(home.entry(), "").unwrap()), "second");
    assert_eq!(second_call(|home| fs::write(home.entry(), [0; 100]).unwrap()), "second");
    let token = second_call(|home| {
        let mut bytes = fs::read(home.entry()).unwrap();
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        fs::write(home.entry(), bytes).unwrap();
    });
    assert_eq!(token, "second");
}

#[test]
fn entry_of_another_key_is_ignored() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("first").expiring_in(HOUR).on_the_next_run().answers("second").expiring_in(HOUR);
    assert_eq!(home.token(&[], &plugin), "first");
    let other = home.entry();
    assert_eq!(home.token(&["--env", "HOM*", "--watch", "/no/such"], &plugin), "second");
    let mine = home.keys().into_iter().find(|path| *path != other).unwrap();
    fs::copy(&other, &mine).unwrap();
    assert_eq!(home.token(&["--env", "HOM*", "--watch", "/no/such"], &plugin), "second");
    assert_eq!(plugin.runs(), 3);
}

#[test]
fn future_or_expired_entry_is_not_served() {
    assert_eq!(second_call(|home| rewrite(&home.entry(), "created", |_| "9000000000000".to_owned())), "second");
    assert_eq!(second_call(|home| rewrite(&home.entry(), "until", |_| "1000".to_owned())), "second");
}

#[test]
fn plugin_runs_without_a_writable_directory() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    // A file in place of a directory; directories in which not even root can create files.
    let file = home.file("file", "");
    for dir in [file.to_str().unwrap(), "/proc/self/task", "/proc/none/such"] {
        let before = plugin.runs();
        for _ in 0..2 {
            let ran = home.run(home.cache(&["--cache-dir", dir], &plugin));
            assert_eq!(ran.token(), "a-token");
            assert!(ran.stderr.starts_with("warning: cannot use the cache"), "{}", ran.stderr);
        }
        assert_eq!(plugin.runs() - before, 2, "{dir}");
    }
    let mut homeless = home.cache(&[], &plugin);
    homeless.env_remove("HOME");
    assert_eq!(home.run(homeless).token(), "a-token");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
fn full_disk_passes_the_output_on() {
    let home = CacheSandbox::new();
    let answer = r#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"a-token"}}"#;
    let plugin = home.script("plugin", &format!("echo '{answer}'"));
    // A file size limit of 0 has the effect of a full disk.
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_credlet"), "cache", "--"]);
    shell.arg(plugin).env_clear().env("HOME", home.dir()).env("KUBERNETES_EXEC_INFO", V1);
    shell.env("CREDLET_TEST_ACCOUNT_HOME", home.dir());
    let ran = home.run(shell);
    assert_eq!(ran.token(), "a-token");
    assert!(ran.stderr.contains("cannot use the cache"), "{}", ran.stderr);
    let dirs = [home.entries(), home.path(CACHE_IN_HOME).join("credlet/state")];
    let files = dirs.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten());
    let left: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_str().unwrap().ends_with(".lock")), "{left:?}");
}

#[test]
fn invalid_output_is_passed_on_and_not_cached() {
    for printed in ["", "hello\n", "{\"apiVersion\":\"v9\"}"] {
        let home = CacheSandbox::new();
        let plugin = TestPlugin::new().prints(printed);
        for _ in 0..2 {
            let ran = home.run(home.cache(&[], &plugin));
            assert_eq!((ran.code, &*ran.stdout), (Some(0), printed));
        }
        assert_eq!((plugin.runs(), home.keys().len()), (2, 0));
    }
}

#[test]
fn disabled_cache_changes_nothing() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR).api_version("client.authentication.k8s.io/v1beta1");
    for _ in 0..2 {
        let mut call = home.cache(&[], &plugin);
        call.env("CREDLET_CACHE", "off");
        assert_eq!(home.run(call).json()["apiVersion"], "client.authentication.k8s.io/v1beta1");
    }
    assert_eq!((plugin.runs(), home.keys().len()), (2, 0));
}

#[test]
fn invalid_request_is_passed_to_the_plugin() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    for _ in 0..2 {
        let mut call = home.cache(&[], &plugin);
        call.env("KUBERNETES_EXEC_INFO", "{{{");
        assert_eq!(home.run(call).token(), "a-token");
    }
    assert_eq!((plugin.runs(), home.keys().len()), (2, 0));
}

#[test]
fn missing_plugin_is_reported() {
    let home = CacheSandbox::new();
    let ran = home.run(home.credlet(&["cache", "--", "no-such-plugin"]));
    assert_eq!((ran.code, &*ran.stderr), (Some(1), "error: `no-such-plugin` is not installed\n"));
}

#[test]
fn encrypted_entry_shows_nothing() {
    let home = CacheSandbox::new();
    let token = home.watch.secret("token");
    let plugin = TestPlugin::answering(token.expose()).expiring_in(HOUR);
    let first = home.run(home.cache(&["--encrypt"], &plugin));
    assert_eq!(first.token(), token.expose());
    assert_eq!(home.token(&["--encrypt"], &plugin), token.expose());
    for file in fs::read_dir(home.entries()).unwrap() {
        home.watch.text(String::from_utf8_lossy(&fs::read(file.unwrap().path()).unwrap()));
    }
    // Without a keyring, as in most containers, nothing is stored. `credlet-exec/tests/cache.rs` tests both cases.
    let has_keyring = !first.stderr.contains("failed to encrypt");
    assert_eq!((plugin.runs(), home.keys().len()), if has_keyring { (1, 1) } else { (2, 0) }, "{}", first.stderr);
}
