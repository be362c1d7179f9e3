use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use credlet_testkit::plugin::{Plugin, wait_for_end};
use credlet_testkit::server::Order;

use super::support::{Home, exec};

#[test]
fn zero_is_done_and_one_is_the_servers_no() {
    let home = Home::of("{token: t}");
    home.run(&["get", "/readyz"]).data();
    home.server.revoke_all();
    let ran = home.run(&["get", "/readyz"]);
    assert!(ran.failure(1).contains("hint: `credlet doctor`"), "{ran:?}");
}

#[test]
fn two_is_usage() {
    let home = Home::of("{token: t}");
    for args in [
        &["get"][..],
        &["frobnicate"],
        &["get", "/", "--request-timeout", "soon"],
        &["get", "/", "--context", "none"],
        &["get", "/", "--kubeconfig", "/no/such/file"],
        &["get", "/a b"],
        &["token", "-o", "xml"],
    ] {
        let ran = home.run(args);
        assert!(!ran.failure(2).is_empty(), "{args:?}: {ran:?}");
    }
    assert_eq!(home.server.counts().requests, 0);
}

#[test]
fn three_is_no_credential() {
    let home = Home::empty();
    let plugin = Plugin::failing(7, "please log in\n");
    home.write_config(&exec(&plugin, "Never"));
    let ran = home.run(&["get", "/readyz"]);
    assert!(ran.failure(3).starts_with("please log in\nerror: "), "{ran:?}");
    assert!(ran.stderr.ends_with("exited with code 7: please log in\n"), "{ran:?}");
    home.write_config(&exec(&plugin, "Always"));
    let ran = home.run(&["get", "/readyz"]);
    assert!(ran.failure(3).contains("standard input is not a terminal"), "{ran:?}");
    assert!(ran.stderr.contains("\nhint: run this in a terminal"), "{ran:?}");
    assert_eq!(home.server.counts().requests, 0);
}

#[test]
fn four_is_refused_by_policy() {
    let (home, plugin, _) = Home::with_token_plugin();
    let kuberc = home.path("kuberc");
    let path = kuberc.to_str().unwrap();
    fs::write(
        &kuberc,
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
    )
    .unwrap();
    assert!(home.run(&["get", "/readyz", "--kuberc", path]).failure(4).contains("DenyAll"));
    fs::write(&kuberc, "credentialPluginPolicy: [\n").unwrap();
    let ran = home.run(&["get", "/readyz", "--kuberc", path]);
    assert!(ran.failure(4).contains("no plugin is run, because the plugin policy in "), "{ran:?}");
    assert_eq!(plugin.runs(), 0);
}

#[test]
fn five_is_timed_out_whoever_is_slow() {
    let home = Home::of("{token: t}");
    home.server.next(1, Order::Stall);
    let ran = home.run(&["get", "/readyz", "--request-timeout=50ms"]);
    assert!(ran.failure(5).starts_with("error: there was no answer within 50ms\n"), "{ran:?}");
    let plugin = Plugin::new().hangs();
    home.write_config(&exec(&plugin, "Never"));
    home.run(&["get", "/readyz", "--request-timeout=500ms"]).failure(5);
    // It may not have come so far as to be started; if it has, it is ended with us, and gone a moment later.
    plugin.pids().into_iter().for_each(wait_for_end);
}

#[test]
fn six_is_not_reached() {
    let home = Home::of("{token: t}");
    let ran = home.run(&["get", "/readyz", "--server", "https://127.0.0.1:1"]);
    assert!(ran.failure(6).starts_with("error: 127.0.0.1:1 cannot be reached: "), "{ran:?}");
    assert!(ran.stderr.contains("hint: `credlet config resolve`"), "{ran:?}");
    let stranger = credlet_testkit::ca::Ca::new();
    fs::write(home.path("ca.pem"), stranger.pem()).unwrap();
    let ran = home.run(&["get", "/readyz"]);
    assert!(ran.failure(6).contains("is not accepted"), "{ran:?}");
}

#[test]
fn missing_files_of_the_list_are_passed_over() {
    let home = Home::of("{token: t}");
    let list = |list: String| {
        let mut command = home.command(&["get", "/readyz"]);
        command.env("KUBECONFIG", list);
        home.finish(command)
    };
    let good = home.path(".kube/config");
    assert_eq!(list(format!("/no/such:{}:/nor/this", good.display())).data(), "ok");
    let ran = list("/no/such:/nor/this".to_owned());
    assert!(ran.failure(2).contains("(not found: /no/such; /nor/this)"), "{ran:?}");
    assert!(ran.stderr.contains("hint: name a file with --kubeconfig"), "{ran:?}");
}

#[test]
fn a_home_that_cannot_be_written_is_enough() {
    let (home, _plugin, _) = Home::with_token_plugin();
    let kube = home.path(".kube");
    for dir in [kube.as_path(), home.dir.path()] {
        fs::set_permissions(dir, Permissions::from_mode(0o500)).unwrap();
    }
    let ran = home.run(&["get", "/readyz"]);
    let left: Vec<_> = fs::read_dir(&kube).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    for dir in [home.dir.path(), kube.as_path()] {
        fs::set_permissions(dir, Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(ran.data(), "ok");
    assert_eq!(left, ["config"], "nothing is left behind, also by one who could");
}

#[test]
fn without_a_home_there_are_still_flags() {
    let home = Home::of("{token: t}");
    let config = home.path(".kube/config");
    let mut command = home.command(&["get", "/readyz", "--kubeconfig", config.to_str().unwrap()]);
    command.env_remove("HOME").env_remove("PATH");
    assert_eq!(home.finish(command).data(), "ok");
}

#[test]
fn what_the_libraries_do_is_told_to_those_who_ask() {
    let (home, plugin, _) = Home::with_token_plugin();
    let ran = home.run(&["get", "/readyz", "-v", "6"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "ok"));
    let said = format!("debug: running credential plugin command=\"{}\"", plugin.command().display());
    assert!(ran.stderr.contains(&said), "{ran:?}");
}
