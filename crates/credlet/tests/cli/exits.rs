use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use credlet_testkit::plugin::{TestPlugin, wait_for_end};
use credlet_testkit::server::Fault;

use super::support::{CliSandbox, exec};

#[test]
fn zero_is_success_one_is_a_server_error() {
    let home = CliSandbox::with_user("{token: t}");
    home.run(&["get", "/readyz"]).data();
    home.server.revoke_all();
    let output = home.run(&["get", "/readyz"]);
    assert!(output.failure(1).contains("hint: run `credlet doctor`"), "{output:?}");
}

#[test]
fn two_is_usage_error() {
    let home = CliSandbox::with_user("{token: t}");
    for args in [
        &["get"][..],
        &["frobnicate"],
        &["get", "/", "--request-timeout", "soon"],
        &["get", "/", "--context", "none"],
        &["get", "/", "--kubeconfig", "/no/such/file"],
        &["get", "/a b"],
        &["token", "-o", "xml"],
    ] {
        let output = home.run(args);
        assert!(!output.failure(2).is_empty(), "{args:?}: {output:?}");
    }
    assert_eq!(home.server.counts().requests, 0);
}

#[test]
fn three_is_missing_credential() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::failing(7, "please log in\n");
    home.write_config(&exec(&plugin, "Never"));
    let output = home.run(&["get", "/readyz"]);
    assert!(output.failure(3).starts_with("please log in\nerror: "), "{output:?}");
    assert!(output.stderr.ends_with("exited with code 7: please log in\n"), "{output:?}");
    home.write_config(&exec(&plugin, "Always"));
    let output = home.run(&["get", "/readyz"]);
    assert!(output.failure(3).contains("standard input is not a terminal"), "{output:?}");
    assert!(output.stderr.contains("\nhint: run this in a terminal"), "{output:?}");
    assert_eq!(home.server.counts().requests, 0);
}

#[test]
fn four_is_denied_by_policy() {
    let (home, plugin, _) = CliSandbox::with_token_plugin();
    let kuberc = home.path("kuberc");
    let path = kuberc.to_str().unwrap();
    fs::write(
        &kuberc,
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
    )
    .unwrap();
    assert!(home.run(&["get", "/readyz", "--kuberc", path]).failure(4).contains("DenyAll"));
    fs::write(&kuberc, "credentialPluginPolicy: [\n").unwrap();
    let output = home.run(&["get", "/readyz", "--kuberc", path]);
    assert!(output.failure(4).contains("invalid plugin policy in "), "{output:?}");
    assert_eq!(plugin.runs(), 0);
}

#[test]
fn five_is_timed_out() {
    let home = CliSandbox::with_user("{token: t}");
    home.server.inject(1, Fault::Stall);
    let output = home.run(&["get", "/readyz", "--request-timeout=50ms"]);
    assert!(output.failure(5).starts_with("error: request timed out after 50ms\n"), "{output:?}");
    let plugin = TestPlugin::new().hangs();
    home.write_config(&exec(&plugin, "Never"));
    home.run(&["get", "/readyz", "--request-timeout=500ms"]).failure(5);
    // The plugin may not have started; if it has, it is killed.
    plugin.pids().into_iter().for_each(wait_for_end);
}

#[test]
fn six_is_unreachable() {
    let home = CliSandbox::with_user("{token: t}");
    let output = home.run(&["get", "/readyz", "--server", "https://127.0.0.1:1"]);
    assert!(output.failure(6).starts_with("error: 127.0.0.1:1 cannot be reached: "), "{output:?}");
    assert!(output.stderr.contains("hint: run `credlet config resolve`"), "{output:?}");
    let stranger = credlet_testkit::ca::TestCa::new();
    fs::write(home.path("ca.pem"), stranger.pem()).unwrap();
    let output = home.run(&["get", "/readyz"]);
    assert!(output.failure(6).contains("invalid certificate"), "{output:?}");
}

#[test]
fn ignores_missing_files_of_kubeconfig_list() {
    let home = CliSandbox::with_user("{token: t}");
    let list = |list: String| {
        let mut command = home.command(&["get", "/readyz"]);
        command.env("KUBECONFIG", list);
        home.finish(command)
    };
    let good = home.path(".kube/config");
    assert_eq!(list(format!("/no/such:{}:/nor/this", good.display())).data(), "ok");
    let output = list("/no/such:/nor/this".to_owned());
    assert!(output.failure(2).contains("(not found: /no/such; /nor/this)"), "{output:?}");
    assert!(output.stderr.contains("hint: name a file with --kubeconfig"), "{output:?}");
}

#[test]
fn works_with_a_read_only_home() {
    let (home, _plugin, _) = CliSandbox::with_token_plugin();
    let kube = home.path(".kube");
    for dir in [kube.as_path(), home.dir()] {
        fs::set_permissions(dir, Permissions::from_mode(0o500)).unwrap();
    }
    let output = home.run(&["get", "/readyz"]);
    let left: Vec<_> = fs::read_dir(&kube).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    for dir in [home.dir(), kube.as_path()] {
        fs::set_permissions(dir, Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(output.data(), "ok");
    assert_eq!(left, ["config"], "nothing is left behind, also by one who could");
}

#[test]
fn works_without_home() {
    let home = CliSandbox::with_user("{token: t}");
    let config = home.path(".kube/config");
    let mut command = home.command(&["get", "/readyz", "--kubeconfig", config.to_str().unwrap()]);
    command.env_remove("HOME").env_remove("PATH");
    assert_eq!(home.finish(command).data(), "ok");
}

#[test]
fn verbosity_enables_logs() {
    let (home, plugin, _) = CliSandbox::with_token_plugin();
    let output = home.run(&["get", "/readyz", "-v", "6"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "ok"));
    let said = format!("debug: running credential plugin command=\"{}\"", plugin.command().display());
    assert!(output.stderr.contains(&said), "{output:?}");
}
