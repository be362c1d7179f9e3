//! Whatever is wrong with the cache, there is the plugin's answer.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use credlet_testkit::plugin::Plugin;

use crate::stand::{Home, V1, script};

const HOUR: Duration = Duration::from_secs(3600);

/// Changes a line of an entry, and its sum with it.
pub(crate) fn rewrite(entry: &Path, name: &str, change: impl Fn(&str) -> String) {
    use aws_lc_rs::digest::{SHA256, digest};
    let text = fs::read_to_string(entry).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let line = rest.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    let rest = rest.replacen(line, &format!("{name} {}", change(&line[name.len() + 1..])), 1);
    let sum: String = digest(&SHA256, rest.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let magic = first.rsplit_once(' ').unwrap().0;
    fs::write(entry, format!("{magic} {sum}\n{rest}")).unwrap();
}

/// Two tokens; what happens to the first one's entry decides which one the second call gets.
fn second_call(spoil: impl FnOnce(&Home)) -> String {
    let home = Home::new();
    let plugin = Plugin::answering("first").expiring_in(HOUR).on_the_next_run().answers("second").expiring_in(HOUR);
    assert_eq!(home.token(&[], &plugin), "first");
    spoil(&home);
    let token = home.token(&[], &plugin);
    if token == "second" {
        // It has been put in order.
        assert_eq!(home.token(&[], &plugin), "second");
        assert_eq!(plugin.runs(), 2);
    }
    token
}

#[test]
fn an_untouched_entry_is_served() {
    assert_eq!(second_call(|_| {}), "first");
}

#[test]
fn an_entry_that_others_can_read_is_not_trusted() {
    for mode in [0o644, 0o640, 0o666, 0o602] {
        let token = second_call(|home| fs::set_permissions(home.entry(), Permissions::from_mode(mode)).unwrap());
        assert_eq!(token, "second", "{mode:o}");
    }
}

#[test]
fn a_link_in_an_entry_s_place_is_not_followed() {
    let token = second_call(|home| {
        let entry = home.entry();
        let elsewhere = home.path().join("elsewhere");
        fs::rename(&entry, &elsewhere).unwrap();
        symlink(&elsewhere, &entry).unwrap();
    });
    assert_eq!(token, "second");
}

#[test]
fn another_user_s_entry_is_not_trusted() {
    // Only root can give files away.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let token = second_call(|home| std::os::unix::fs::chown(home.entry(), Some(12345), None).unwrap());
    assert_eq!(token, "second");
}

#[test]
fn a_damaged_entry_is_none() {
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
fn an_entry_of_another_key_under_this_name_is_none() {
    let home = Home::new();
    let plugin = Plugin::answering("first").expiring_in(HOUR).on_the_next_run().answers("second").expiring_in(HOUR);
    assert_eq!(home.token(&[], &plugin), "first");
    let other = home.entry();
    assert_eq!(home.token(&["--env", "HOM*", "--watch", "/no/such"], &plugin), "second");
    let mine = home.keys().into_iter().find(|path| *path != other).unwrap();
    fs::copy(&other, &mine).unwrap();
    assert_eq!(home.token(&["--env", "HOM*", "--watch", "/no/such"], &plugin), "second");
    assert_eq!(plugin.runs(), 3);
}

#[test]
fn an_entry_from_the_future_or_past_its_time_is_not_served() {
    assert_eq!(second_call(|home| rewrite(&home.entry(), "created", |_| "9000000000000".to_owned())), "second");
    assert_eq!(second_call(|home| rewrite(&home.entry(), "until", |_| "1000".to_owned())), "second");
}

#[test]
fn where_nothing_can_be_written_the_plugin_answers_every_time() {
    let home = Home::new();
    let plugin = Plugin::answering("a-token").expiring_in(HOUR);
    // A file where a directory should be; a directory in which nobody can make files, not even root.
    let file = home.file("file", "");
    for dir in [file.to_str().unwrap(), "/proc/self/task", "/proc/none/such"] {
        let before = plugin.runs();
        for _ in 0..2 {
            let ran = home.run(home.cache(&["--cache-dir", dir], &plugin));
            assert_eq!(ran.token(), "a-token");
            assert!(ran.stderr.starts_with("warning: the cache is not used"), "{}", ran.stderr);
        }
        assert_eq!(plugin.runs() - before, 2, "{dir}");
    }
    let mut homeless = home.cache(&[], &plugin);
    homeless.env_remove("HOME");
    assert_eq!(home.run(homeless).token(), "a-token");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
fn on_a_full_disk_the_plugin_s_answer_is_passed_on_and_nothing_is_left() {
    let home = Home::new();
    let answer = r#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"a-token"}}"#;
    let plugin = script(home.path(), "plugin", &format!("echo '{answer}'"));
    // No file may grow beyond nothing, which is how a full disk looks to the one who writes.
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_credlet"), "cache", "--"]);
    shell.arg(plugin).env_clear().env("HOME", home.path()).env("KUBERNETES_EXEC_INFO", V1);
    let ran = home.run(shell);
    assert_eq!(ran.token(), "a-token");
    assert!(ran.stderr.contains("the cache is not used"), "{}", ran.stderr);
    let left: Vec<_> = fs::read_dir(home.entries()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_str().unwrap().ends_with(".lock")), "{left:?}");
}

#[test]
fn a_directory_that_others_can_look_into_is_closed_to_them() {
    let home = Home::new();
    fs::create_dir_all(home.entries()).unwrap();
    fs::set_permissions(home.entries(), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(home.token(&[], &Plugin::answering("a-token").expiring_in(HOUR)), "a-token");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&home.entries()), mode(&home.entry())), (0o700, 0o600));
}

#[test]
fn what_is_no_answer_is_passed_on_as_it_is_and_not_kept() {
    for printed in ["", "hello\n", "{\"apiVersion\":\"v9\"}"] {
        let home = Home::new();
        let plugin = Plugin::new().prints(printed);
        for _ in 0..2 {
            let ran = home.run(home.cache(&[], &plugin));
            assert_eq!((ran.code, &*ran.stdout), (Some(0), printed));
        }
        assert_eq!((plugin.runs(), home.keys().len()), (2, 0));
    }
}

#[test]
fn switched_off_it_is_as_if_it_was_not_there() {
    let home = Home::new();
    let plugin = Plugin::answering("a-token").expiring_in(HOUR).api_version("client.authentication.k8s.io/v1beta1");
    for _ in 0..2 {
        let mut call = home.cache(&[], &plugin);
        call.env("CREDLET_CACHE", "off");
        assert_eq!(home.run(call).json()["apiVersion"], "client.authentication.k8s.io/v1beta1");
    }
    assert_eq!((plugin.runs(), home.keys().len()), (2, 0));
}

#[test]
fn a_question_that_nobody_understands_goes_to_the_plugin() {
    let home = Home::new();
    let plugin = Plugin::answering("a-token").expiring_in(HOUR);
    for _ in 0..2 {
        let mut call = home.cache(&[], &plugin);
        call.env("KUBERNETES_EXEC_INFO", "{{{");
        assert_eq!(home.run(call).token(), "a-token");
    }
    assert_eq!((plugin.runs(), home.keys().len()), (2, 0));
}

#[test]
fn a_missing_plugin_is_named() {
    let home = Home::new();
    let ran = home.run(home.credlet(&["cache", "--", "no-such-plugin"]));
    assert_eq!((ran.code, &*ran.stderr), (Some(1), "error: `no-such-plugin` is not installed\n"));
}

#[test]
fn an_encrypted_entry_shows_nothing_and_is_served_all_the_same() {
    let home = Home::new();
    let token = home.watch.secret("token");
    let plugin = Plugin::answering(token.expose()).expiring_in(HOUR);
    let first = home.run(home.cache(&["--encrypt"], &plugin));
    assert_eq!(first.token(), token.expose());
    if first.stderr.contains("without encryption") {
        // No keyring here, as in most containers: kept in a file, and said so. (`credlet-plugins` tests both cases with a
        // keyring of its own.)
        assert!(first.stderr.contains("keyring"), "{}", first.stderr);
    } else {
        home.watch.text(String::from_utf8_lossy(&fs::read(home.entry()).unwrap()));
    }
    assert_eq!(home.token(&["--encrypt"], &plugin), token.expose());
    assert_eq!(plugin.runs(), 1);
}
